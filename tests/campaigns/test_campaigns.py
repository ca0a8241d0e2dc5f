"""Every attack for a fixed number of cases, at a fixed seed."""

import fnmatch

import pytest

import meshsolve as ms
from campaigns import surface, table

SEED = 20261129


@pytest.mark.parametrize("name", sorted(table.load()))
def test_attack(name):
    attack = table.ATTACKS[name]
    findings = [f"case {k}: {ending}: {text}" for k in range(attack.quick) for ending, text in [attack.run(SEED, k)] if ending in ("wrong", "foreign")]
    assert not findings, f"{len(findings)} of {attack.quick} cases of {name}\n" + "\n".join(findings[:5])


def test_every_public_call_has_an_attack_or_a_reason():
    attacked = {call for attack in table.ATTACKS.values() for call in attack.calls}
    assert surface.without_attack(attacked) == []
    assert surface.unknown(attacked) == [], "attacks on calls that do not exist"


def test_every_reason_is_needed():
    names = surface.public()
    assert [pattern for pattern in surface.REASONS if not any(fnmatch.fnmatchcase(name, pattern) for name in names)] == []


def test_a_new_public_call_is_noticed(monkeypatch):
    monkeypatch.setattr(ms, "__all__", [*ms.__all__, "brand_new"])
    monkeypatch.setattr(ms, "brand_new", lambda A: A, raising=False)
    assert "brand_new" in surface.without_attack(set())


@pytest.mark.parametrize("case, ending", [
    (lambda rng: None, "ok"),
    (lambda rng: ms.cholesky("text"), "refused"),
    (lambda rng: 1 / 0, "foreign")])
def test_endings(case, ending):
    assert table.Attack("test.case", (), case, 1).run(1, 2)[0] == ending


def test_a_wrong_answer_and_a_false_alarm_are_findings():
    def wrong(rng):
        assert rng is None, "off by one"

    def alarm(rng):
        with table.well_posed("a matrix"):
            ms.cholesky([[-1.0]])

    ending, text = table.Attack("test.wrong", (), wrong, 1).run(1, 2)
    assert ending == "wrong" and "off by one" in text
    assert "false alarm, a matrix: NotPositiveDefiniteError" in table.Attack("test.alarm", (), alarm, 1).run(1, 2)[1]
