"""For pytest on the suite of ome-writers: ``-p shardwright_plugin`` adds this package's backend to its own."""

import shardwright.ome_writers

shardwright.ome_writers.register()
