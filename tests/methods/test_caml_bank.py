import copy

import torch

from tracoco.methods.caml import CaseBank


def values(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers).reshape(-1, 1)


def test_so_many_features_of_each_class_are_drawn_from_all_cases() -> None:
    bank = CaseBank()
    bank.put("a", [values(1, 2, 3), values()])
    bank.put("b", [values(4), values(10, 11)])
    torch.manual_seed(0)
    background, foreground = bank.draw(2)
    assert len(background) == 2
    assert sorted(foreground.flatten().tolist()) == [10, 11]
    drawn = {tuple(sorted(bank.draw(2)[0].flatten().tolist())) for _ in range(100)}
    assert len(drawn) == 6  # every pair of four


def test_a_class_that_has_fewer_is_left_out() -> None:
    bank = CaseBank()
    bank.put("a", [values(1, 2, 3), values(10, 11)])
    background, foreground = bank.draw(3)
    assert sorted(background.flatten().tolist()) == [1, 2, 3]
    assert foreground.shape == (0, 1)


def test_a_case_that_is_seen_again_replaces_what_it_had() -> None:
    bank = CaseBank()
    bank.put("a", [values(1), values(2)])
    bank.put("a", [values(3), values()])
    assert [part.flatten().tolist() for part in bank.draw(1)] == [[3.0], []]


def test_it_is_saved_among_the_weights() -> None:
    bank, other = CaseBank(), CaseBank()
    bank.put("a", [values(1, 2), values(3)])
    state = copy.deepcopy(bank.state_dict())
    bank.put("a", [values(7), values(8)])
    other.load_state_dict(state)
    assert sorted(other.draw(2)[0].flatten().tolist()) == [1.0, 2.0]
    assert other.draw(1)[1].item() == 3.0
    assert bank.draw(1)[0].item() == 7.0
