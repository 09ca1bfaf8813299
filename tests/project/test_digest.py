from tracoco.files import digest


def test_the_order_of_keys_does_not_matter_and_that_of_lists_does() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])


def test_the_digest_is_the_same_for_ever() -> None:
    # printf '[0, "a"]' | sha256sum
    assert digest([0, "a"]).startswith("4a2978d91c01")
