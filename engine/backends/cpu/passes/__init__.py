"""The passes over steps of backend cpu, in the order in which they run."""

from palmkit.engine.backends.cpu.passes.branches import share_out
from palmkit.engine.backends.cpu.passes.copies import view_copies
from palmkit.engine.backends.cpu.passes.gates import join_gates
from palmkit.engine.backends.cpu.passes.interleaves import join_interleaves
from palmkit.engine.backends.cpu.passes.read_in_place import read_in_place
from palmkit.engine.backends.cpu.passes.separable import join_separable
from palmkit.engine.backends.cpu.passes.sums import join_clamps, join_resized_sums
from palmkit.engine.backends.cpu.passes.tune import choose_algorithms
from palmkit.engine.steps.rewriting import StepPass

STEP_PASSES: tuple[StepPass, ...] = (
    join_separable,  # before the other joins: a 1x1 convolution that has taken in more is not taken
    join_interleaves,  # behind join_separable: it is for the convolutions that are left
    join_gates,  # likewise; a convolution takes gates or a second picture, not both
    join_clamps,  # before join_resized_sums: a sum brings its clamp along
    join_resized_sums,  # the last join: nothing takes in what it makes
    view_copies,  # behind the joins: the last step of each writes, the first reads, parts
    share_out,  # once steps are what they will be: it weighs them
    choose_algorithms,  # once steps are what they will be: it times them
    read_in_place,  # behind choose_algorithms: only some algorithms read weights in place
)
