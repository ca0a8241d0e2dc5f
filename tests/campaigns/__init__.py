"""Campaigns: hostile inputs for every public call, against oracles that are not our code. `python tests/campaigns --help`."""
