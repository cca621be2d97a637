//! 8-bit integers on processors. Without VNNI, x86 adds pairs of products of 8 bits in 16 (`vpmaddubsw`) and cuts off
//! what does not fit: sums of large activations and weights are wrong then, and so is the network. ONNX Runtime's own
//! kernels have a slower mode that is exact; OpenVINO has none.

use crate::lc0::DataType;

/// What a processor has for products of 8-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteProducts {
    /// Whether it is an x86.
    pub is_x86: bool,
    /// Whether it adds the products in 32 bits (AVX-VNNI, AVX-512 VNNI).
    pub has_vnni: bool,
}

impl ByteProducts {
    /// Those of this processor.
    pub fn detect() -> ByteProducts {
        #[cfg(target_arch = "x86_64")]
        let has_vnni =
            is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni");
        #[cfg(not(target_arch = "x86_64"))]
        let has_vnni = false;
        ByteProducts {
            is_x86: cfg!(target_arch = "x86_64"),
            has_vnni,
        }
    }

    /// Whether sums of products may be cut off.
    pub fn saturate(self) -> bool {
        self.is_x86 && !self.has_vnni
    }

    /// What to report where OpenVINO computes with this type on this processor.
    pub(super) fn openvino_warning(self, data_type: DataType) -> Option<&'static str> {
        (data_type == DataType::Int8 && self.saturate()).then_some(
            "warning: precision=int8 is inaccurate with openvino on this processor, which has no VNNI (sums of 8-bit \
             products overflow); take Backend onnx-cpu, which is exact, or precision=fp32",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_saturate_on_x86_without_vnni_only() {
        for (is_x86, has_vnni, expected) in [
            (true, false, true),
            (true, true, false),
            (false, false, false),
        ] {
            let products = ByteProducts { is_x86, has_vnni };
            assert_eq!(products.saturate(), expected, "{products:?}");
            let warning = products.openvino_warning(DataType::Int8);
            assert_eq!(warning.is_some(), expected, "{products:?}");
            assert_eq!(products.openvino_warning(DataType::Float32), None);
        }
    }
}
