"""BCP-CauSSL (Miao et al., ICCV 2023): copy-paste, with a student independent of its teacher."""

from pydantic import Field

from tracoco.data.batch import Batch
from tracoco.methods.bcp import BCP, BCPConfig
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.independence import Independence, IndependenceConfig, Pairs, filters

WAIT = 120
"""Steps of the second stage before the first search: the first multiple of 60 past 100, from which
on the authors' mean teacher counts independence."""


class BCPCauSSLConfig(BCPConfig, IndependenceConfig):
    """Settings of `bcp-caussl`; those of `bcp`, and those of CauSSL's game.

    Its code is not public. The values are those of the authors' mean teacher with the same term.
    """

    independence_weight: float = Field(default=2.0, ge=0)
    """Of how well the student's filters are explained by the teacher's, once a search has been
    made; 1 in the authors' mean teacher, beside half of the supervised loss."""


class BCPCauSSL(BCP):
    """Bidirectional copy-paste, whose student must not be a combination of its teacher."""

    Config = BCPCauSSLConfig
    config: BCPCauSSLConfig

    def __init__(
        self, config: BCPCauSSLConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, build_network, facts)
        self.independence = Independence(self.pairs(), config, self.pretrain_steps + WAIT)

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """What copy-paste teaches, and how far the student depends on the teacher."""
        explained = self.independence(self.pairs(), step)
        terms, pseudo_labels = super().forward(batch, step)
        independence = self.config.independence_weight * explained
        return StepOutput({**terms, "independence": independence}, pseudo_labels)

    def before_step(self, batch: Batch, step: int) -> None:
        """Search for what explains the student by the teacher, if it is time to."""
        self.independence.search(self.pairs(), step)

    def pairs(self) -> Pairs:
        """Filters of the student, layer by layer, with those of the teacher."""
        return list(zip(filters(self.student), filters(self.teacher), strict=True))
