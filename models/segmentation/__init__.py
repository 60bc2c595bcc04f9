"""The recipe of the portrait and hair masks: labels, data, network, training, evaluation."""
