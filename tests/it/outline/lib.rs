//! A shop.
use std::fmt;

pub const LIMIT: usize = 10;

/// An item.
#[derive(Debug)]
pub struct Item<'a> {
    name: &'a str,
}

struct Unit;
pub struct Pair(u8, u8);

pub enum Kind { A, B(u8) }

pub trait Priced {
    const RATE: u32;
    fn price(&self) -> u32;
    fn tax(&self) -> u32 { 1 }
}

impl<'a> Priced for Item<'a>
where
    Self: Sized,
{
    const RATE: u32 = 1;
    fn price(&self) -> u32 {
        fn inner() {}
        1
    }
}

macro_rules! make { () => {}; }

mod tests {
    #[test]
    fn works() {}
}
type Alias = u8;
