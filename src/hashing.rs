//! The program's two hash functions. Both are the same on every machine and in every version, unlike the standard
//! library's: signatures, fingerprints and recorded keys depend on them. (SHA-256, for files, is from the crate
//! `sha2`.)

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use sha2::{Digest, Sha256};

/// 64-bit FNV-1a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Fnv1a {
    /// The hash of no bytes.
    pub fn new() -> Fnv1a {
        Fnv1a(0xcbf2_9ce4_8422_2325)
    }

    /// The hash continued with these bytes.
    pub fn and(self, bytes: &[u8]) -> Fnv1a {
        Fnv1a(bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// The hash as a number.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl Default for Fnv1a {
    fn default() -> Fnv1a {
        Fnv1a::new()
    }
}

/// A bijection of 64-bit numbers with good avalanche: each bit of the input changes half of the output's. The finalizer
/// of SplitMix64.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of these bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&bytes[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_give_their_published_values() {
        // From the FNV authors' test vectors.
        let fnv1a = |bytes| Fnv1a::new().and(bytes).value();
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        let in_parts = Fnv1a::new().and(b"foo").and(b"bar");
        assert_eq!(in_parts.value(), fnv1a(b"foobar"));
        // SplitMix64's first output for the seed 0 is this of the golden gamma.
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }
}
