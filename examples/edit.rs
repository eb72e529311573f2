//! Edits a finished dataset: copies the chunks of its first frames over those of its second, and takes the last chunk
//! away.
//!
//! Any program that knows the chunk's codecs can do the same with its own pixels: a denoised frame in the place of the
//! noisy one, a frame that must not be published taken out.

use std::env;
use std::error::Error;

use shardwright::offline::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: edit DATASET")?;
    let store = Store::edit(&path)?;
    // As if each chunk were a file: whichever shard holds it, under whatever dialect.
    let is_chunk = |key: &&String| {
        let is_record = key.starts_with("records/") || key.contains("/records/");
        let is_place = |byte: u8| byte.is_ascii_digit() || b"-_.c".contains(&byte);
        !is_record && key.rsplit('/').next().is_some_and(|name| name.bytes().all(is_place))
    };
    let keys = store.list()?;
    let chunks: Vec<&String> = keys.iter().filter(is_chunk).collect();
    let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else { return Err("there is no chunk".into()) };
    let Some(value) = store.get(first)? else { return Err("the first chunk has gone".into()) };
    println!("{first} has {} bytes", value.len());
    if let Some(second) = chunks.get(1) {
        store.set(second, &value)?;
        println!("{second} has the same now");
    }
    store.erase(last)?;
    println!("{last} reads as the fill value now");
    store.finish()?;
    Ok(())
}
