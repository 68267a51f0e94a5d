//! Prices of a small shop, in cents.

/// What one article costs, without discount.
pub fn total(price: u64, pieces: u64) -> u64 {
    price * pieces
}

/// The price after a discount of `percent`.
pub fn discount(price: u64, percent: u64) -> u64 {
    price - percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_counts_pieces() {
        assert_eq!(total(250, 4), 1000);
    }

    #[test]
    fn discount_takes_a_share_of_the_price() {
        assert_eq!(discount(2000, 10), 1800);
        assert_eq!(discount(999, 0), 999);
    }
}
