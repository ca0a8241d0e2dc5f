"""Every attack for a fixed number of cases, at a fixed seed."""

import pytest
from campaigns import table

SEED = 20261129


@pytest.mark.parametrize("name", sorted(table.load()))
def test_attack(name):
    attack = table.ATTACKS[name]
    findings = [f"case {k}: {ending}: {text}" for k in range(attack.quick) for ending, text in [attack.run(SEED, k)] if ending in ("wrong", "foreign")]
    assert not findings, f"{len(findings)} of {attack.quick} cases of {name}\n" + "\n".join(findings[:5])
