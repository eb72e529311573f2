"""Random datasets of other programs through every command: equal in two readers, or refused with a sentence."""
