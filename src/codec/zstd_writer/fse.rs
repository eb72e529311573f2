//! Finite state entropy: the tables by which weights and sequences are written (RFC 8878, section 4.1).

use super::bits::BackwardBits;

/// The most symbols that any table here has: the codes of match lengths.
const SYMBOLS_MAX: usize = 53;
/// The most states that any table here has.
pub(super) const LOG_MAX: u32 = 6;

/// What a decoder's table looks like to the encoder.
///
/// A state is a number from `1 << log` on, below twice that. The states of a symbol stand in the order of the decoder's
/// table, so that the k-th of them is reached from the states whose upper bits are the symbol's share plus k.
pub(super) struct Table {
    log: u32,
    states: [u16; 1 << LOG_MAX],
    /// Where the states of a symbol begin.
    first: [u8; SYMBOLS_MAX],
    /// How many states a symbol has.
    share: [u8; SYMBOLS_MAX],
}

impl Table {
    /// The table that a decoder makes of these shares, whose sum is `1 << log`; -1 stands for "less than one".
    pub(super) fn new(log: u32, shares: &[i8]) -> Self {
        let size = 1 << log;
        let cells = spread(size, shares);
        let mut made = Self { log, states: [0; 1 << LOG_MAX], first: [0; SYMBOLS_MAX], share: [0; SYMBOLS_MAX] };
        let mut sum = 0;
        for (symbol, share) in shares.iter().enumerate() {
            made.first[symbol] = sum;
            made.share[symbol] = share.unsigned_abs();
            sum += share.unsigned_abs();
        }
        debug_assert_eq!(usize::from(sum), size);
        let mut next = made.first;
        for (position, symbol) in cells[..size].iter().enumerate() {
            let place = &mut next[usize::from(*symbol)];
            made.states[usize::from(*place)] = (size + position) as u16;
            *place += 1;
        }
        made
    }

    /// The state that ends with `symbol`, which costs nothing.
    ///
    /// Of the symbol's states, that with the most bits to read: for weights the end of the stream is where these are no
    /// longer there, so there must be some.
    pub(super) fn start(&self, symbol: u8) -> u16 {
        self.states[usize::from(self.first[usize::from(symbol)])]
    }

    /// Puts the bits that lead a decoder from a state of `symbol` to `state`, and goes to the former.
    #[inline]
    pub(super) fn encode(&self, state: &mut u16, symbol: u8, bits: &mut BackwardBits) {
        let symbol = usize::from(symbol);
        let share = u16::from(self.share[symbol]);
        let most = self.log - if share > 1 { (share - 1).ilog2() } else { 0 };
        // Either `most` bits or one less lead from here to between one and two times the share.
        let count = if *state >= share << most { most } else { most - 1 };
        bits.put(u64::from(*state & ((1 << count) - 1)), count);
        *state = self.states[usize::from(u16::from(self.first[symbol]) + (*state >> count) - share)];
    }

    /// Puts the state itself, from which a decoder begins.
    pub(super) fn end(&self, state: u16, bits: &mut BackwardBits) {
        bits.put(u64::from(state) - (1 << self.log), self.log);
    }
}

/// Which symbol each cell of a decoder's table has.
fn spread(size: usize, shares: &[i8]) -> [u8; 1 << LOG_MAX] {
    let mut cells = [0; 1 << LOG_MAX];
    let mut free = size;
    for (symbol, share) in shares.iter().enumerate() {
        if *share < 0 {
            free -= 1;
            cells[free] = symbol as u8;
        }
    }
    let step = size / 2 + size / 8 + 3;
    let mut at = 0;
    for (symbol, share) in shares.iter().enumerate() {
        for _ in 0..(*share).max(0) {
            cells[at] = symbol as u8;
            at = (at + step) % size;
            while at >= free && free > 0 {
                at = (at + step) % size;
            }
        }
    }
    cells
}

/// Shares in proportion to `counts`, none of which is lost, with the sum `1 << log`. `None`: fewer than two symbols
/// occur, so that a decoder could not tell the end of the stream, or more than there are shares.
pub(super) fn shares<const N: usize>(counts: &[u32; N], log: u32) -> Option<[i8; N]> {
    let size = 1_i32 << log;
    let total: u32 = counts.iter().sum();
    let occur = counts.iter().filter(|count| **count > 0).count();
    if !(2..=size as usize).contains(&occur) {
        return None;
    }
    let rounded = |count: u32| (u64::from(count) * size as u64 * 2 / u64::from(total)).div_ceil(2) as i32;
    let share = |count: u32| rounded(count).max(i32::from(count > 0));
    let mut shares = counts.map(share);
    let mut rest = size - shares.iter().sum::<i32>();
    // Rounding errors are borne by those with the most.
    while rest != 0 {
        let most = shares.iter_mut().max().expect("at least two symbols");
        let step = rest.signum().max(1 - *most);
        *most += step;
        rest -= step;
    }
    Some(shares.map(|share| share as i8))
}

/// Writes the description of a table and returns its bytes. `None`: no room.
pub(super) fn describe(log: u32, shares: &[i8], target: &mut [u8]) -> Option<usize> {
    let mut bits = ForwardBits { target, at: 0, held: 0, count: 0 };
    bits.put(log - 5, 4)?;
    let mut left = 1_u32 << log;
    let mut symbol = 0;
    while left > 0 {
        let share = shares[symbol];
        // One number more than there are shares left can stand here, since 0 stands for "less than one". As far as that
        // leaves numbers of this many bits unused, the lowest ones take one bit less.
        let width = (left + 1).ilog2() + 1;
        let (short, value) = ((1 << width) - 1 - (left + 1), (i32::from(share) + 1) as u32);
        match value {
            _ if value < short => bits.put(value, width - 1)?,
            _ if value < 1 << (width - 1) => bits.put(value, width)?,
            _ => bits.put(value + short, width)?,
        }
        left -= u32::from(share.unsigned_abs());
        symbol += 1;
        if share == 0 {
            let zeros = shares[symbol..].iter().take_while(|share| **share == 0).count();
            symbol += zeros;
            for _ in 0..zeros / 3 {
                bits.put(3, 2)?;
            }
            bits.put(zeros as u32 % 3, 2)?;
        }
    }
    bits.finish()
}

/// Writes bits that are read in their order.
struct ForwardBits<'a> {
    target: &'a mut [u8],
    at: usize,
    held: u32,
    count: u32,
}

impl ForwardBits<'_> {
    fn put(&mut self, value: u32, bits: u32) -> Option<()> {
        self.held |= value << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.push()?;
            self.count -= 8;
        }
        Some(())
    }

    fn push(&mut self) -> Option<()> {
        *self.target.get_mut(self.at)? = self.held as u8;
        self.held >>= 8;
        self.at += 1;
        Some(())
    }

    fn finish(mut self) -> Option<usize> {
        if self.count > 0 {
            self.push()?;
        }
        Some(self.at)
    }
}
