//! What stands behind the options on the pages of `--help`. Paragraphs are one line each, which clap wraps; lines that
//! begin with two spaces are not to be wrapped, so they are short.

/// What exit codes mean in every command.
const CODES: [(u8, &str); 6] = [
    (0, "done"),
    (1, "failed: disk full, output exists, dataset in use, or a system error"),
    (2, "the command line is wrong, or asks for something impossible"),
    (3, "the input is missing, is not what it should be, or is damaged"),
    (5, "the input may be valid, but is not supported"),
    (130, "interrupted by Ctrl-C or SIGTERM; what is finished stays"),
];

const OF_JSON: &str = "\
With --json, an error is also an object on standard output:
  {\"error\": {\"kind\", \"message\", \"path\", \"exit_code\"}}";

/// A page: what is said of the command, and all exit codes, those of its own in the place of others.
fn page(text: &str, own: &[(u8, &str)]) -> String {
    let usual = CODES.iter().filter(|(code, _)| own.iter().all(|(of_own, _)| of_own != code));
    let mut codes: Vec<_> = usual.chain(own).copied().collect();
    codes.sort();
    page_of(text, &codes)
}

/// A page of a command that has all of its exit codes for its own.
fn page_of(text: &str, codes: &[(u8, &str)]) -> String {
    let codes = codes.iter().map(|(code, meaning)| format!("  {code:<3}  {meaning}\n"));
    let lead = if text.is_empty() { String::new() } else { format!("{text}\n\n") };
    format!("{lead}Exit codes:\n{}\n{OF_JSON}", codes.collect::<String>())
}

pub(super) fn main() -> String {
    let examples = "\
Examples:
  shardwright replay movie.tif movie.ome.zarr
  shardwright info movie.ome.zarr
  shardwright verify movie.ome.zarr
  shardwright export movie.ome.zarr part.ome.tif --region 0:100,:,512:1024
  shardwright repack movie.ome.zarr small.ome.zarr --codec zstd --level 9
  shardwright repack movie.ome.zarr movie.ozx
  shardwright pyramid movie.ome.zarr
  shardwright manifest movie.ome.zarr --url-prefix s3://bucket/movie.ome.zarr
  shardwright recover killed.ome.zarr --apply
  shardwright probe /data --camera 2048x2048xu16@100";
    page(examples, &[(4, "replay, probe, recover: frames were lost, or can be recovered")])
}

pub(super) fn info() -> String {
    page("", &[])
}

pub(super) fn replay() -> String {
    let examples = "\
Examples:
  shardwright replay movie.ome.tif out.ome.zarr --codec blosc-zstd
  shardwright replay positions.ome.tif out.ome.zarr --series 1
  shardwright replay positions.ome.tif out.ome.zarr --series all
  shardwright replay movie.tif plate.ome.zarr --plate 8x12 --fields 4
  shardwright replay movie.tif one_file.ozx
  shardwright replay a.raw out.zarr --shape 1000,512,640 --dtype u16
  shardwright replay a.raw out.zarr --shape 9,512,640 --pixel-format mono12p
  shardwright replay synthetic out.zarr --camera 2048x2048xu16@100";
    page(
        examples,
        &[(0, "all frames were written"), (4, "finished, but frames were lost or are missing from the recording")],
    )
}

pub(super) fn probe() -> String {
    let text = "It takes about ten seconds and, while it runs, a few gigabytes of free space. It also says which \
                settings keep up, by what margin, and when the disk will be full.";
    page(text, &[(0, "this machine keeps up"), (4, "it does not: frames would be lost")])
}

pub(super) fn verify() -> String {
    page("", &[(0, "sound"), (3, "damaged, missing, or no dataset"), (5, "no damage, but not all could be checked")])
}

pub(super) fn recover() -> String {
    let text = "Without --apply, it only reports what it would change. The indexes of shards are rebuilt from the \
                headers in front of the chunks; a chunk counts only if its header and its bytes agree. It may be \
                interrupted and run again.";
    page(text, &[(0, "nothing to do, or done"), (4, "there is something to do (without --apply)")])
}

pub(super) fn export() -> String {
    let text = "Dimensions keep the array's order, slowest first; in TIFF each frame is a page. TIFF beyond 4 GB \
                becomes BigTIFF. Dimensions are called what the image's axes are, or the array's own names. Without \
                any, the last two are y and x, and the first of three is t, which --region takes and OME-TIFF says; \
                more than three have no place in OME-TIFF then.";
    page(text, &[])
}

pub(super) fn manifest() -> String {
    let text = "Readers that go by references (fsspec, VirtualiZarr) then open the dataset without a copy: \
                manifest.json holds a chunk-manifest-json for each array, kerchunk.json all of them.";
    page(text, &[])
}

pub(super) fn pyramid() -> String {
    let text = "Each level is made from the one before; level 0 is only read. Killed and called again with the same \
                arguments, it continues where it stopped.";
    page(text, &[])
}

pub(super) fn repack() -> String {
    let text = "Every new shard is read back and compared before an old one is removed. Killed and called again with \
                the same arguments, it continues where it stopped; called again after it has finished, it says so.";
    page(text, &[])
}

pub(super) fn plan() -> String {
    let text = "\
The first line is the plan; then comes one line for each array and one for each shard. Any scheduler runs the tasks:
  shardwright plan repack run.ome.zarr small.ome.zarr > tasks.jsonl
  shardwright run-task tasks.jsonl --range 0:100
  shardwright finish tasks.jsonl";
    page(text, &[])
}

pub(super) fn run_task() -> String {
    let text = "A task may be run twice, also at the same time: the same bytes come of it. It takes no lock, and \
                opens what its line names; only the first ones of a plan look once whether the folder of the result \
                is empty. With --json, each task prints one line, its receipt or its error.";
    page_of(
        text,
        &[
            (0, "done, or done before"),
            (1, "failed otherwise"),
            (2, "the command line is wrong, or asks for something impossible"),
            (3, "the input is damaged or not as planned, or something is in the way"),
            (75, "try again: a full disk, another system error, an input not made yet"),
            (130, "interrupted by Ctrl-C or SIGTERM; what is finished stays"),
        ],
    )
}

pub(super) fn create() -> String {
    let text = "\
Each process then acquires its part, on whatever host, by the field `part` of its configuration. When all have ended:
  shardwright finish run.ome.zarr";
    page(text, &[])
}

pub(super) fn finish() -> String {
    let text = "Of tasks: every shard must be there, as its receipt says. Then everything else is written, documents \
                last, and the result gets its name; of verify, the report is printed, with its exit code. If shards \
                are missing, the first 20 are named, and a file of tasks with nothing but these is written beside \
                the other one: tasks.missing.jsonl. Killed and called again, it goes on; called again after its end, \
                it says so, and of verify tells the same report: plan again to check again.\n\nOf a run in parts: \
                shards are moved into its array, and its records and documents tell of all parts. No pixel is \
                read. Killed and called again, it continues where it stopped.";
    page(
        text,
        &[
            (4, "finished, but frames are missing from the parts"),
            (1, "shards are missing, disk full, output exists, or a system error"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_fit_a_terminal_of_80_columns() {
        let pages = [
            main, info, replay, probe, verify, recover, export, manifest, pyramid, repack, plan, run_task, create,
            finish,
        ]
        .map(|page| page());
        for page in pages {
            let mut before = "";
            for line in page.lines() {
                let is_listed = line.starts_with("  ");
                assert!(!is_listed || line.chars().count() <= 78, "{line:?} would be wrapped");
                let is_wrapped = !is_listed && !line.is_empty() && !before.is_empty() && !before.starts_with("  ");
                assert!(!is_wrapped, "{line:?} belongs to the line before, which clap wraps");
                before = line;
            }
            let codes: Vec<u8> = page.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
            assert!(codes.len() >= CODES.len() && codes.is_sorted(), "{codes:?}");
        }
    }
}
