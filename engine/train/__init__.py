"""Training on the device: gradients, losses, optimisers, and the trainer that joins them.

from palmkit.engine import load, save, train

graph = load("classifier.palm").graph
head = [name for name in train.trainable(graph)][-2:]
trainer = train.Trainer(graph, "logits", "cross_entropy", head, train.Adam(1e-3))
for pictures, classes in batches:
    trainer.step({"image": pictures}, one_hot(classes))
save(trainer.graph, "mine.palm")
"""

from palmkit.engine.train.gradients import with_gradients
from palmkit.engine.train.levels import with_levels, with_trainable_weights
from palmkit.engine.train.losses import LOSSES
from palmkit.engine.train.optimisers import SGD, Adam, Optimiser
from palmkit.engine.train.trainer import Trainer, trainable
from palmkit.engine.train.transfer import with_classifier

__all__ = [
    "LOSSES",
    "SGD",
    "Adam",
    "Optimiser",
    "Trainer",
    "trainable",
    "with_classifier",
    "with_gradients",
    "with_levels",
    "with_trainable_weights",
]
