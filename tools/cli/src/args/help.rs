//! What stands behind the options on the pages of `--help`.

/// What every command ends with.
macro_rules! exit_codes {
    ($own:literal) => {
        concat!(
            "Exit codes:\n",
            $own,
            "  1  the disk is full, the output exists, a writer is at work, or the system\n",
            "     refused something\n",
            "  2  the command line is wrong, or asks for something impossible\n",
            "  3  what is at the path is missing, not what it should be, or damaged\n",
            "  5  what is at the path may be valid, but is not supported\n",
            "  130  interrupted by Ctrl-C or SIGTERM; what is finished stays\n",
            "With --json, an error is an object on standard output, too:\n",
            "  {\"error\": {\"kind\", \"message\", \"path\", \"exit_code\"}}"
        )
    };
}

pub(super) const EXIT_CODES: &str = exit_codes!("  0  done\n");

pub(super) const EXAMPLES: &str = concat!(
    "\
Examples:
  shardwright replay movie.tif movie.ome.zarr
  shardwright info movie.ome.zarr
  shardwright verify movie.ome.zarr
  shardwright export movie.ome.zarr part.ome.tif --region 0:100,:,512:1024
  shardwright repack movie.ome.zarr archive.ome.zarr --codec zstd --level 9
  shardwright repack movie.ome.zarr movie.ozx
  shardwright pyramid movie.ome.zarr
  shardwright manifest movie.ome.zarr --url-prefix s3://bucket/movie.ome.zarr
  shardwright recover killed.ome.zarr --apply
  shardwright probe /data --camera 2048x2048xu16@100

",
    exit_codes!("  0  done\n"),
    "\nWith replay, probe and recover, 4 means that frames were lost or can be recovered."
);

pub(super) const REPLAY_HELP: &str = concat!(
    "\
Examples:
  shardwright replay movie.tif out.ome.zarr --codec zstd --chunk 16,256,256
  shardwright replay positions.ome.tif out.ome.zarr --series 1
  shardwright replay movie.tif one_file.ozx
  shardwright replay a.raw out.zarr --shape 99,512,640 --dtype u16 --offset 4096
  shardwright replay a.raw out.zarr --shape 99,512,640 --pixel-format mono12p
  shardwright replay synthetic out.zarr --camera 2048x2048xu16@100 --frames 99

",
    exit_codes!(
        "  0  all frames were written\n  4  finished, but frames were lost or are missing from the recording\n"
    )
);

pub(super) const PROBE_HELP: &str = concat!(
    "\
It takes about ten seconds and, while it runs, a few gigabytes of free space. It also says which settings keep up, by \
what margin, and when the disk will be full.

",
    exit_codes!("  0  it keeps up\n  4  it does not: frames would be lost\n")
);

pub(super) const VERIFY_HELP: &str = concat!(
    exit_codes!("  0  sound\n"),
    "\n3 means that damage was found; 5, that none was found, but not everything could be checked."
);

pub(super) const RECOVER_HELP: &str = concat!(
    "\
Without --apply, it only reports what it would change. The indexes of shards are rebuilt from the headers in front of \
the chunks; a chunk counts only if its header and its bytes agree. It may be interrupted and run again.

",
    exit_codes!("  0  nothing to do, or done\n  4  there is something to do (without --apply)\n")
);

pub(super) const EXPORT_HELP: &str = concat!(
    "\
Dimensions keep the array's order, slowest first; in TIFF each frame is a page. TIFF beyond 4 GB becomes BigTIFF.
Dimensions are called what the image's axes are, or the array's own names. Without any, the last two are y and x, and \
the first of three is t, which --region takes and OME-TIFF says; more than three have no place in OME-TIFF then.

",
    exit_codes!("  0  done\n")
);

pub(super) const MANIFEST_HELP: &str = concat!(
    "\
Readers that go by references (fsspec, VirtualiZarr) then open the dataset without a copy: manifest.json holds a \
chunk-manifest-json for each array, kerchunk.json all of them.

",
    exit_codes!("  0  done\n")
);

pub(super) const PYRAMID_HELP: &str = concat!(
    "\
Each level is made from the one before; level 0 is only read. Killed and called again with the same arguments, it \
continues where it stopped.

",
    exit_codes!("  0  done\n")
);

pub(super) const REPACK_HELP: &str = concat!(
    "\
Every new shard is read back and compared before an old one is removed. Killed and called again with the same \
arguments, it continues where it stopped; called again after it has finished, it says so.

",
    exit_codes!("  0  done\n")
);
