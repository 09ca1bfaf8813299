import torch

from tracoco.methods.patchcl import ClassQueues


def test_the_newest_push_the_oldest_out_class_by_class() -> None:
    queues = ClassQueues(classes=3, length=3, width=1)
    queues.push(torch.tensor([[1.0], [2.0], [10.0]]), torch.tensor([0, 0, 2]))
    assert queues.filled.tolist() == [2, 0, 1]
    queues.push(torch.tensor([[3.0], [4.0]]), torch.tensor([0, 0]))
    assert queues.embeddings[0, :, 0].tolist() == [3.0, 4.0, 1.0]
    assert queues.filled.tolist() == [3, 0, 1]
    assert queues.embeddings[2, 0].tolist() == [10.0]


def test_mean_and_covariance_of_what_is_held() -> None:
    queues = ClassQueues(classes=2, length=5, width=2)
    queues.push(torch.tensor([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([1, 1]))
    found = queues.distributions()
    assert found.mean.tolist() == [[0.0, 0.0], [2.0, 2.0]]
    assert found.covariance.tolist() == [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 4.0]]]
    assert found.present.tolist() == [False, True]


def test_more_than_fit_at_once_keep_the_first() -> None:
    queues = ClassQueues(classes=2, length=2, width=1)
    queues.push(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 0, 0]))
    assert queues.embeddings[0, :, 0].tolist() == [1.0, 2.0]
    assert queues.filled.tolist() == [2, 0]


def test_queues_carry_no_gradient_and_are_saved() -> None:
    queues = ClassQueues(classes=2, length=2, width=1)
    weight = torch.ones(1, 1, requires_grad=True)
    queues.push(3 * weight, torch.tensor([1]))
    assert not queues.distributions().mean.requires_grad
    other = ClassQueues(classes=2, length=2, width=1)
    other.load_state_dict(queues.state_dict())
    assert other.distributions().mean.tolist() == [[0.0], [3.0]]
