//! Whole chunks as the array has them: decompressed, unpacked, and with their dimensions in the array's order.

use crate::codec::Decoder;
use crate::config::Codec;
use crate::dtype::ElementType;
use crate::error::{Error, Result};
use crate::format::codecs::{BytesCodec, Chain, InnerShard};
use crate::format::fill_value;
use crate::format::index::table::{Table, TableLayout};
use crate::format::layout::in_order;
use crate::geometry::{for_each_position, linear};

const CHECKSUM_BYTES: usize = 4;

/// Decodes chunks of one array into elements in C order, lowest byte first.
pub(crate) struct ChunkDecoder {
    unpacker: ElementUnpacker,
    transposition: Option<Transposition>,
    element_bytes: usize,
    /// A chunk whose dimensions are in their own order.
    stored: Vec<u8>,
}

enum ElementUnpacker {
    /// Numbers of this many bytes are turned round; 1: none.
    Elements {
        decoder: Decoder,
        turned_bytes: usize,
    },
    Shard(Box<ShardDecoder>),
}

impl ChunkDecoder {
    /// A decoder for chunks of `shape`. `fill`: an element of what is not there.
    pub(crate) fn new(chain: &Chain, element: ElementType, shape: &[u64], fill: &[u8]) -> Result<Self> {
        let element_bytes = element.size();
        let transposition = chain.order.as_ref().map(|order| Transposition::new(shape, order));
        let unpacker = match &chain.packing {
            BytesCodec::Elements { big_endian } => {
                let raw_bytes = shape.iter().product::<u64>() as usize * element_bytes;
                let decoder = Decoder::new(&chain.codec, element_bytes, raw_bytes)?;
                let turned_bytes = if *big_endian { element.number_bytes() } else { 1 };
                ElementUnpacker::Elements { decoder, turned_bytes }
            }
            BytesCodec::Shard(shard) => {
                ElementUnpacker::Shard(Box::new(ShardDecoder::new(shard, &chain.codec, element, fill)?))
            }
        };
        Ok(Self { unpacker, transposition, element_bytes, stored: Vec::new() })
    }

    /// Decodes a chunk into `raw`, which must be exactly its size.
    ///
    /// # Errors
    ///
    /// As of a [`Decoder`], and when the index of a shard in it is damaged. What `raw` holds is then undefined.
    pub(crate) fn decode(&mut self, encoded: &[u8], raw: &mut [u8]) -> Result<()> {
        let Self { unpacker, transposition, element_bytes, stored } = self;
        let Some(transposition) = transposition else { return unpacker.unpack(encoded, raw) };
        stored.resize(raw.len(), 0);
        unpacker.unpack(encoded, stored)?;
        transposition.undo(stored, raw, *element_bytes);
        Ok(())
    }
}

impl ElementUnpacker {
    fn unpack(&mut self, encoded: &[u8], out: &mut [u8]) -> Result<()> {
        match self {
            Self::Elements { decoder, turned_bytes } => {
                decoder.decode(encoded, out)?;
                if *turned_bytes > 1 {
                    out.chunks_exact_mut(*turned_bytes).for_each(<[u8]>::reverse);
                }
                Ok(())
            }
            Self::Shard(shard) => shard.decode(encoded, out),
        }
    }
}

/// A chunk that is a shard.
struct ShardDecoder {
    checksum: bool,
    table: TableLayout,
    chunk_shape: Vec<u64>,
    per_shard: Vec<u64>,
    fill: Vec<u8>,
    decoder: ChunkDecoder,
    /// One chunk of the shard.
    chunk: Vec<u8>,
}

impl ShardDecoder {
    fn new(shard: &InnerShard, codec: &Codec, element: ElementType, fill: &[u8]) -> Result<Self> {
        let InnerShard { chunk_shape, per_shard, table, chain } = shard;
        let decoder = ChunkDecoder::new(chain, element, chunk_shape, fill)?;
        Ok(Self {
            checksum: codec.checksum,
            table: *table,
            chunk_shape: chunk_shape.clone(),
            per_shard: per_shard.clone(),
            fill: fill.to_vec(),
            decoder,
            chunk: vec![0; chunk_shape.iter().product::<u64>() as usize * element.size()],
        })
    }

    fn decode(&mut self, encoded: &[u8], out: &mut [u8]) -> Result<()> {
        let mut own = Vec::new();
        let encoded = if self.checksum {
            own.resize(encoded.len().saturating_sub(CHECKSUM_BYTES), 0);
            let sealed = Codec { checksum: true, ..Codec::from(crate::config::Compressor::None) };
            Decoder::new(&sealed, 1, own.len())?.decode(encoded, &mut own)?;
            &own
        } else {
            encoded
        };
        let index = self.index(encoded).map_err(damaged)?;
        let mut done = Ok(());
        for_each_position(&vec![0; self.per_shard.len()], &self.per_shard.clone(), |at| {
            if done.is_ok() {
                done = self.chunk(&index, encoded, at, out);
            }
        });
        done
    }

    fn index(&self, shard: &[u8]) -> Result<Table, String> {
        let len = shard.len() as u64;
        let part = self.table.part(len).ok_or_else(|| {
            format!("{len} bytes are too few for the index of {} bytes of a shard in a chunk", self.table.bytes())
        })?;
        let bytes = shard[part.offset as usize..(part.offset + part.nbytes) as usize].to_vec();
        Table::decode(self.table, part, len, bytes)
    }

    /// Decodes the chunk at a place of the shard's grid to its place in the shard.
    fn chunk(&mut self, index: &Table, shard: &[u8], at: &[u64], out: &mut [u8]) -> Result<()> {
        match index.entry(linear(at, &self.per_shard) as usize).map_err(damaged)? {
            None => fill_value::row(&mut self.chunk, &self.fill),
            Some(range) => {
                let encoded = &shard[range.offset as usize..(range.offset + range.nbytes) as usize];
                self.decoder.decode(encoded, &mut self.chunk)?;
            }
        }
        let element = self.fill.len();
        let Some((last, outer)) = self.chunk_shape.split_last() else {
            out.copy_from_slice(&self.chunk);
            return Ok(());
        };
        let shape: Vec<u64> =
            self.chunk_shape.iter().zip(&self.per_shard).map(|(chunk, count)| chunk * count).collect();
        let corner: Vec<u64> = self.chunk_shape.iter().zip(at).map(|(chunk, at)| chunk * at).collect();
        let row_bytes = *last as usize * element;
        let mut rows = self.chunk.chunks_exact(row_bytes);
        let mut place = corner.clone();
        for_each_position(&corner[..outer.len()], outer, |row| {
            place[..row.len()].copy_from_slice(row);
            let to = linear(&place, &shape) as usize * element;
            if let Some(row) = rows.next() {
                out[to..to + row_bytes].copy_from_slice(row);
            }
        });
        Ok(())
    }
}

fn damaged(reason: String) -> Error {
    Error::codec("sharding_indexed", reason)
}

/// How a chunk with dimensions in another order becomes one of the array's.
struct Transposition {
    shape: Vec<u64>,
    /// Elements from one neighbour to the next in the stored chunk, in each dimension of the array.
    strides: Vec<usize>,
}

impl Transposition {
    /// `order`: the dimensions of a chunk of `shape` in the order in which it is stored.
    fn new(shape: &[u64], order: &[usize]) -> Self {
        let mut strides = vec![0; shape.len()];
        let mut stride = 1;
        for (&dim, length) in order.iter().zip(in_order(shape, order)).rev() {
            strides[dim] = stride;
            stride *= length as usize;
        }
        Self { shape: shape.to_vec(), strides }
    }

    fn undo(&self, stored: &[u8], out: &mut [u8], element_bytes: usize) {
        // Of known sizes, elements are copied by one instruction each.
        match element_bytes {
            1 => self.rows(stored, out, 1, |from, to| to[0] = from[0]),
            2 => self.rows(stored, out, 2, |from, to| to[..2].copy_from_slice(&from[..2])),
            4 => self.rows(stored, out, 4, |from, to| to[..4].copy_from_slice(&from[..4])),
            8 => self.rows(stored, out, 8, |from, to| to[..8].copy_from_slice(&from[..8])),
            bytes => self.rows(stored, out, bytes, |from, to| to[..bytes].copy_from_slice(&from[..bytes])),
        }
    }

    #[inline(always)]
    fn rows(&self, stored: &[u8], out: &mut [u8], element: usize, copy: impl Fn(&[u8], &mut [u8])) {
        let Some((&columns, outer)) = self.shape.split_last() else { return out.copy_from_slice(stored) };
        let stride = self.strides[outer.len()];
        let mut rows = out.chunks_exact_mut(columns as usize * element);
        for_each_position(&vec![0; outer.len()], outer, |row| {
            let first: usize = row.iter().zip(&self.strides).map(|(at, stride)| *at as usize * stride).sum();
            let Some(row) = rows.next() else { return };
            for (column, to) in row.chunks_exact_mut(element).enumerate() {
                copy(&stored[(first + column * stride) * element..], to);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dtype::Dtype;

    fn chain(codecs: serde_json::Value, element: ElementType, shape: &[u64]) -> Chain {
        Chain::from_zarr3(codecs.as_array().unwrap(), element, shape).unwrap()
    }

    /// What an array of these numbers is when its dimensions are in another order, one element at a time.
    fn transposed(numbers: &[u8], shape: &[u64], order: &[usize]) -> Vec<u8> {
        let stored = in_order(shape, order);
        let mut out = Vec::new();
        for_each_position(&vec![0; shape.len()], &stored, |at| {
            let mut place = vec![0; shape.len()];
            order.iter().zip(at).for_each(|(&dim, &at)| place[dim] = at);
            out.push(numbers[linear(&place, shape) as usize]);
        });
        out
    }

    #[test]
    fn dimensions_come_back_in_their_order() {
        let shape = [2, 3, 4];
        let numbers: Vec<u8> = (0..24).collect();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let codecs = json!([{"name": "transpose", "configuration": {"order": order}}, "bytes"]);
            let chain = chain(codecs, Dtype::U8.into(), &shape);
            let mut decoder = ChunkDecoder::new(&chain, Dtype::U8.into(), &shape, &[0]).unwrap();
            let mut raw = vec![0; 24];
            decoder.decode(&transposed(&numbers, &shape, &order), &mut raw).unwrap();
            assert_eq!(raw, numbers, "{order:?}");
        }
    }

    #[test]
    fn transpositions_follow_each_other_and_halves_of_complex_numbers_are_turned() {
        let transpose = |order: [usize; 3]| json!({"name": "transpose", "configuration": {"order": order}});
        let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
        let shape = [2, 3, 4];
        let chain = chain(json!([transpose([1, 2, 0]), transpose([0, 2, 1]), big]), ElementType::C64, &shape);
        // The second one has the first one's result before it.
        assert_eq!(chain.order, Some(vec![1, 0, 2]));
        let numbers: Vec<u8> = (0..24).collect();
        let complex = |number: u8| [f32::from(number), -f32::from(number)];
        let stored = transposed(&numbers, &shape, &[1, 0, 2]);
        let encoded: Vec<u8> = stored.into_iter().flat_map(complex).flat_map(f32::to_be_bytes).collect();
        let expected: Vec<u8> = numbers.into_iter().flat_map(complex).flat_map(f32::to_le_bytes).collect();
        let mut raw = vec![0; encoded.len()];
        let mut decoder = ChunkDecoder::new(&chain, ElementType::C64, &shape, &[0; 8]).unwrap();
        decoder.decode(&encoded, &mut raw).unwrap();
        assert_eq!(raw, expected);
    }

    #[test]
    fn a_shard_in_a_chunk_has_its_own_index_and_holes() {
        let shard = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, 2], "codecs": ["bytes", "crc32c"],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}, "crc32c"],
        }}, "crc32c"]);
        let chain = chain(shard, Dtype::U8.into(), &[2, 4]);
        let seal = |bytes: &[u8]| [bytes, &crc32c::crc32c(bytes).to_le_bytes()].concat();
        let chunks = [[1, 2], [3, 4], [5, 6]].map(|chunk| seal(&chunk));
        let InnerShard { table, .. } = match &chain.packing {
            BytesCodec::Shard(shard) => (**shard).clone(),
            BytesCodec::Elements { .. } => panic!("no shard"),
        };
        let entries = [(0, (12, 6)), (1, (0, 6)), (3, (6, 6))];
        let encoded = seal(&[chunks.concat(), table.encode(entries.into_iter())].concat());
        let mut decoder = ChunkDecoder::new(&chain, Dtype::U8.into(), &[2, 4], &[9]).unwrap();
        let mut raw = vec![0; 8];
        decoder.decode(&encoded, &mut raw).unwrap();
        assert_eq!(raw, [5, 6, 1, 2, 9, 9, 3, 4]);
        for at in 0..encoded.len() {
            let mut broken = encoded.clone();
            broken[at] ^= 1;
            assert!(decoder.decode(&broken, &mut raw).is_err(), "byte {at}");
            assert!(decoder.decode(&encoded[..at], &mut raw).is_err(), "{at} bytes");
        }
    }
}
