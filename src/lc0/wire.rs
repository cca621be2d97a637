//! Checks the bytes of an ONNX model, or of one of lc0's networks, before anything decodes them.
//!
//! Decoders differ: some allocate a declared length before they read it, some merge a message that is repeated and some
//! keep the last one, some skip a field of the wrong type. A file could therefore be one model for the checks in
//! [`bounds`](super::onnx) and another for the runtime. This walk follows the wire format of Protocol Buffers
//! through all messages that `onnx.proto` defines, and accepts only files that all decoders read in the same way:
//!
//! * every length is within the enclosing message, and packed values fill theirs exactly;
//! * a field that is not a list occurs once, and has its own wire type;
//! * there are no groups (which ONNX does not use), and not too many or too deeply nested messages;
//! * all values are in this file: nothing refers to another one.
//!
//! Unknown fields (of newer versions) are checked from outside only. Decoders skip them.
//!
//! Of lc0's networks only the messages that lists are made of are looked into: a decoder needs two kilobytes for an
//! encoder that takes two bytes in the file.

use super::error::NetError;

/// Maximum nesting of messages. A node of a graph inside a graph is five levels deep; decoders recurse.
const MAX_NESTING: usize = 40;
/// Maximum number of messages, unknown ones excepted. Large networks have some 20 000. A runtime needs up to half a
/// kilobyte for each, however short it is in the file.
const MAX_MESSAGES: usize = 1 << 18;
/// Maximum number of fields outside of packed lists.
const MAX_FIELDS: usize = 1 << 22;

/// The contents of a field.
enum Kind {
    /// An integer; in a list also many of them, packed.
    Varint,
    /// A float; in a list also many of them, packed.
    Fixed32,
    /// A double; in a list also many of them, packed.
    Fixed64,
    /// A string, bytes, or a message that no decoder enters.
    Bytes,
    /// A message.
    Message(&'static Schema),
    /// Where the values of a tensor are: 0 for this file.
    Location,
}

/// A field of a message: its number, its contents and whether it is a list.
struct Field(u64, Kind, bool);

/// The fields of a message.
struct Schema {
    /// For errors.
    name: &'static str,
    fields: &'static [Field],
}

const fn one(number: u64, kind: Kind) -> Field {
    Field(number, kind, false)
}

const fn list(number: u64, kind: Kind) -> Field {
    Field(number, kind, true)
}

use Kind::{Bytes, Fixed32, Fixed64, Location, Message, Varint};

static MODEL: Schema = Schema {
    name: "model",
    fields: &[
        one(1, Varint),
        one(2, Bytes),
        one(3, Bytes),
        one(4, Bytes),
        one(5, Varint),
        one(6, Bytes),
        one(7, Message(&GRAPH)),
        list(8, Message(&OPERATOR_SET)),
        list(14, Message(&ENTRY)),
        list(20, Bytes),
        list(25, Bytes),
        list(26, Bytes),
    ],
};

static OPERATOR_SET: Schema = Schema {
    name: "operator set",
    fields: &[one(1, Bytes), one(2, Varint)],
};

static ENTRY: Schema = Schema {
    name: "metadata entry",
    fields: &[one(1, Bytes), one(2, Bytes)],
};

static GRAPH: Schema = Schema {
    name: "graph",
    fields: &[
        list(1, Message(&NODE)),
        one(2, Bytes),
        list(5, Message(&TENSOR)),
        one(10, Bytes),
        list(11, Message(&VALUE_INFO)),
        list(12, Message(&VALUE_INFO)),
        list(13, Message(&VALUE_INFO)),
        list(14, Message(&ANNOTATION)),
        list(15, Message(&SPARSE_TENSOR)),
        list(16, Message(&ENTRY)),
    ],
};

static NODE: Schema = Schema {
    name: "node",
    fields: &[
        list(1, Bytes),
        list(2, Bytes),
        one(3, Bytes),
        one(4, Bytes),
        list(5, Message(&ATTRIBUTE)),
        one(6, Bytes),
        one(7, Bytes),
        one(8, Bytes),
        list(9, Message(&ENTRY)),
        list(10, Bytes),
    ],
};

static ATTRIBUTE: Schema = Schema {
    name: "attribute",
    fields: &[
        one(1, Bytes),
        one(2, Fixed32),
        one(3, Varint),
        one(4, Bytes),
        one(5, Message(&TENSOR)),
        one(6, Message(&GRAPH)),
        list(7, Fixed32),
        list(8, Varint),
        list(9, Bytes),
        list(10, Message(&TENSOR)),
        list(11, Message(&GRAPH)),
        one(13, Bytes),
        one(14, Message(&TYPE)),
        list(15, Message(&TYPE)),
        one(20, Varint),
        one(21, Bytes),
        one(22, Message(&SPARSE_TENSOR)),
        list(23, Message(&SPARSE_TENSOR)),
    ],
};

static TENSOR: Schema = Schema {
    name: "tensor",
    fields: &[
        list(1, Varint),
        one(2, Varint),
        one(3, Message(&SEGMENT)),
        list(4, Fixed32),
        list(5, Varint),
        list(6, Bytes),
        list(7, Varint),
        one(8, Bytes),
        one(9, Bytes),
        list(10, Fixed64),
        list(11, Varint),
        one(12, Bytes),
        list(13, Message(&ENTRY)),
        one(14, Location),
        list(16, Message(&ENTRY)),
    ],
};

static SEGMENT: Schema = Schema {
    name: "segment of a tensor",
    fields: &[one(1, Varint), one(2, Varint)],
};

static SPARSE_TENSOR: Schema = Schema {
    name: "sparse tensor",
    fields: &[
        one(1, Message(&TENSOR)),
        one(2, Message(&TENSOR)),
        list(3, Varint),
    ],
};

static ANNOTATION: Schema = Schema {
    name: "quantization annotation",
    fields: &[one(1, Bytes), list(2, Message(&ENTRY))],
};

static VALUE_INFO: Schema = Schema {
    name: "description of a tensor",
    fields: &[
        one(1, Bytes),
        one(2, Message(&TYPE)),
        one(3, Bytes),
        list(4, Message(&ENTRY)),
    ],
};

static TYPE: Schema = Schema {
    name: "type",
    fields: &[
        one(1, Message(&TENSOR_TYPE)),
        one(4, Message(&ELEMENT_TYPE)),
        one(5, Message(&MAP_TYPE)),
        one(6, Bytes),
        one(7, Bytes),
        one(8, Message(&TENSOR_TYPE)),
        one(9, Message(&ELEMENT_TYPE)),
    ],
};

static TENSOR_TYPE: Schema = Schema {
    name: "type of a tensor",
    fields: &[one(1, Varint), one(2, Message(&SHAPE))],
};

static ELEMENT_TYPE: Schema = Schema {
    name: "type of elements",
    fields: &[one(1, Message(&TYPE))],
};

static MAP_TYPE: Schema = Schema {
    name: "type of a map",
    fields: &[one(1, Varint), one(2, Message(&TYPE))],
};

static SHAPE: Schema = Schema {
    name: "shape",
    fields: &[list(1, Message(&DIMENSION))],
};

static DIMENSION: Schema = Schema {
    name: "dimension",
    fields: &[one(1, Varint), one(2, Bytes), one(3, Bytes)],
};

static NETWORK: Schema = Schema {
    name: "network",
    fields: &[one(10, Message(&WEIGHTS))],
};

static WEIGHTS: Schema = Schema {
    name: "weights",
    fields: &[
        list(2, Message(&PART)),
        list(21, Message(&PART)),
        list(27, Message(&PART)),
        one(44, Message(&VALUE_HEADS)),
        one(45, Message(&POLICY_HEADS)),
    ],
};

static VALUE_HEADS: Schema = Schema {
    name: "value heads",
    fields: &[list(4, Message(&PART))],
};

static POLICY_HEADS: Schema = Schema {
    name: "policy heads",
    fields: &[
        one(3, Message(&POLICY_HEAD)),
        one(4, Message(&POLICY_HEAD)),
        one(5, Message(&POLICY_HEAD)),
        one(6, Message(&POLICY_HEAD)),
        list(7, Message(&NAMED_POLICY_HEAD)),
    ],
};

static NAMED_POLICY_HEAD: Schema = Schema {
    name: "policy head with a name",
    fields: &[one(2, Message(&POLICY_HEAD))],
};

static POLICY_HEAD: Schema = Schema {
    name: "policy head",
    fields: &[list(8, Message(&PART))],
};

/// A block, an encoder or a named head, of which there may be many.
static PART: Schema = Schema {
    name: "part of the network",
    fields: &[],
};

/// The most parts of one of lc0's networks, some hundred times what the largest has.
const MAX_PARTS: usize = 1 << 14;

/// Refuses an ONNX model that decoders could read in different ways, or only with more memory than the file has.
pub(super) fn check_model(bytes: &[u8]) -> Result<(), NetError> {
    Walk::new(bytes, "ONNX model", MAX_MESSAGES).message(&MODEL, bytes.len(), 1)
}

/// The same for one of lc0's networks.
pub(super) fn check_network(bytes: &[u8]) -> Result<(), NetError> {
    Walk::new(bytes, "network", MAX_PARTS).message(&NETWORK, bytes.len(), 1)
}

/// A place in a file, and what was counted on the way.
struct Walk<'a> {
    bytes: &'a [u8],
    /// What the bytes should be, for errors.
    what: &'static str,
    /// Maximum number of messages.
    max_messages: usize,
    at: usize,
    messages: usize,
    fields: usize,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], what: &'static str, max_messages: usize) -> Walk<'a> {
        Walk {
            bytes,
            what,
            max_messages,
            at: 0,
            messages: 0,
            fields: 0,
        }
    }

    /// Checks a message up to its end.
    fn message(&mut self, schema: &Schema, end: usize, nesting: usize) -> Result<(), NetError> {
        if nesting > MAX_NESTING {
            let what = format!("more than {MAX_NESTING} messages inside one another");
            return Err(self.error(schema, what));
        }
        self.messages += 1;
        if self.messages > self.max_messages {
            let what = format!("more than {} messages", self.max_messages);
            return Err(self.error(schema, what));
        }
        let mut seen = 0u64;
        while self.at < end {
            self.fields += 1;
            if self.fields > MAX_FIELDS {
                return Err(self.error(schema, format!("more than {MAX_FIELDS} fields")));
            }
            let key = self.varint(schema, end)?;
            let number = key >> 3;
            if number == 0 || key > u32::MAX.into() {
                return Err(self.error(schema, format!("a field of number {number}")));
            }
            let known = schema.fields.iter().find(|field| field.0 == number);
            // All known numbers are below 64.
            if known.is_some_and(|field| !field.2) {
                if seen & 1 << number != 0 {
                    return Err(self.error(schema, format!("field {number} twice")));
                }
                seen |= 1 << number;
            }
            self.field(schema, (number, key & 7), known, end, nesting)?;
        }
        Ok(())
    }

    /// Checks a field behind its key, which consists of the number and the wire type.
    fn field(
        &mut self,
        schema: &Schema,
        (number, wire_type): (u64, u64),
        known: Option<&Field>,
        end: usize,
        nesting: usize,
    ) -> Result<(), NetError> {
        let kind = known.map(|field| &field.1);
        let is_right = match (kind, wire_type) {
            (None, 0..=2 | 5) => true,
            (Some(Varint | Location), 0) | (Some(Fixed64), 1) | (Some(Fixed32), 5) => true,
            (Some(Bytes | Message(_)), 2) => true,
            (Some(Varint | Fixed64 | Fixed32), 2) => known.is_some_and(|field| field.2),
            _ => false,
        };
        if !is_right {
            let what = format!("field {number} with wire type {wire_type}");
            return Err(self.error(schema, what));
        }
        match wire_type {
            0 => {
                let value = self.varint(schema, end)?;
                // Decoders keep the lower 32 bits of an enumeration.
                if matches!(kind, Some(Location)) && value as u32 != 0 {
                    return Err(NetError::Unsupported {
                        field: "the place of a tensor's values in the ONNX model".to_owned(),
                        found: "another file".to_owned(),
                        expected: "values in the model itself (onnx.save does that by default)"
                            .to_owned(),
                    });
                }
                Ok(())
            }
            1 => self.skip(schema, 8, end),
            5 => self.skip(schema, 4, end),
            _ => {
                let length = self.varint(schema, end)?;
                let start = self.at;
                self.skip(schema, length, end)?;
                let end = self.at;
                let fits = |size: usize| (end - start).is_multiple_of(size);
                match kind {
                    None | Some(Bytes | Location) => Ok(()),
                    Some(Fixed32) if fits(4) => Ok(()),
                    Some(Fixed64) if fits(8) => Ok(()),
                    Some(Fixed32 | Fixed64) => {
                        let what = format!("{length} bytes of packed values in field {number}");
                        Err(self.error(schema, what))
                    }
                    Some(Varint) => {
                        self.at = start;
                        while self.at < end {
                            self.varint(schema, end)?;
                        }
                        Ok(())
                    }
                    Some(Message(inner)) => {
                        self.at = start;
                        self.message(inner, end, nesting + 1)
                    }
                }
            }
        }
    }

    /// A number of up to ten bytes.
    fn varint(&mut self, schema: &Schema, end: usize) -> Result<u64, NetError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes.get(self.at).filter(|_| self.at < end);
            let Some(&byte) = byte else {
                return Err(self.error(schema, "a number that is cut off".to_owned()));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 && (shift < 63 || byte < 2) {
                return Ok(value);
            }
        }
        Err(self.error(schema, "a number above 64 bits".to_owned()))
    }

    fn skip(&mut self, schema: &Schema, length: u64, end: usize) -> Result<(), NetError> {
        let left = end - self.at;
        if length > left as u64 {
            let what = format!("a field of {length} bytes where {left} are left");
            return Err(self.error(schema, what));
        }
        self.at += length as usize;
        Ok(())
    }

    fn error(&self, schema: &Schema, found: String) -> NetError {
        NetError::Wire {
            what: self.what,
            at: self.at,
            message: schema.name,
            found,
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::{Message, encoding::encode_varint};

    use super::*;
    use crate::lc0::onnx::proto::{GraphProto, ModelProto, NodeProto, TensorProto};

    /// A field with a length, which may be another than its content's.
    fn declared(number: u64, length: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_varint(number << 3 | 2, &mut bytes);
        encode_varint(length, &mut bytes);
        [bytes, content.to_vec()].concat()
    }

    fn field(number: u64, content: &[u8]) -> Vec<u8> {
        declared(number, content.len() as u64, content)
    }

    fn number(number: u64, value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_varint(number << 3, &mut bytes);
        encode_varint(value, &mut bytes);
        bytes
    }

    /// Two bytes in the file are two kilobytes in memory.
    #[test]
    fn a_network_has_no_more_parts_than_any_real_one() {
        let network = |weights: &[u8]| field(10, weights);
        let check = |weights: &[u8]| check_network(&network(weights)).map_err(|e| e.to_string());
        let head = |parts: &[u8]| field(45, &field(7, &field(2, parts)));
        for (many, few) in [
            (field(27, b"").repeat(20_000), field(27, b"").repeat(100)),
            (field(2, b"").repeat(20_000), field(2, b"").repeat(100)),
            (
                head(&field(8, b"").repeat(20_000)),
                head(&field(8, b"").repeat(100)),
            ),
            (
                field(44, &field(4, b"").repeat(20_000)),
                field(44, &field(4, b"").repeat(100)),
            ),
        ] {
            assert_eq!(check(&few), Ok(()));
            let error = check(&many).unwrap_err();
            assert!(
                error.contains("damaged network") && error.contains("more than 16384 messages"),
                "{error}"
            );
        }
        assert!(
            check(&declared(27, 5, b""))
                .unwrap_err()
                .contains("a field of 5 bytes")
        );
    }

    /// A model whose graph has these bytes.
    fn model(graph: &[u8]) -> Vec<u8> {
        field(7, graph)
    }

    /// A model with a node that has these bytes as an attribute.
    fn attribute(bytes: &[u8]) -> Vec<u8> {
        model(&field(1, &field(5, bytes)))
    }

    fn refused(bytes: &[u8]) -> String {
        check_model(bytes).unwrap_err().to_string()
    }

    const PETABYTE: u64 = 1 << 50;

    #[test]
    fn a_usual_model_is_accepted() {
        let node = NodeProto {
            input: vec!["a".into(), "b".into()],
            output: vec!["c".into()],
            op_type: Some("Add".into()),
            ..Default::default()
        };
        let tensor = TensorProto {
            dims: vec![2, 3],
            data_type: Some(1),
            raw_data: Some(vec![0; 24].into()),
            name: Some("a".into()),
        };
        let graph = GraphProto {
            node: vec![node.encode_to_vec().into()],
            initializer: vec![tensor.encode_to_vec().into()],
            value_info: vec![field(1, b"c").into()],
            ..Default::default()
        };
        let model = ModelProto {
            ir_version: Some(8),
            graph: Some(graph),
            ..Default::default()
        };
        let bytes = model.encode_to_vec();
        check_model(&bytes).unwrap();
        // No beginning of it is whole, except for none of it and what stands before the graph.
        let whole: Vec<usize> = (0..=bytes.len())
            .filter(|&end| check_model(&bytes[..end]).is_ok())
            .collect();
        assert_eq!(whole, [0, 2, bytes.len()]);
    }

    #[test]
    fn a_declared_length_is_never_more_than_what_is_left() {
        // In messages that are not decoded here, but by rten: the description of a tensor between nodes.
        let name = declared(1, PETABYTE, b"x");
        let dimension = |length| {
            field(
                2,
                &field(1, &field(2, &field(1, &declared(2, length, b"N")))),
            )
        };
        for bytes in [
            model(&field(13, &name)),
            model(&field(13, &dimension(PETABYTE))),
            model(&field(1, &declared(7, PETABYTE, b""))),
            // The first of two graphs in an attribute; only the last would be decoded.
            attribute(&[field(6, &field(13, &name)), field(6, b"")].concat()),
            declared(7, PETABYTE, b""),
            declared(2, u64::MAX, b""),
        ] {
            let error = refused(&bytes);
            assert!(error.contains("are left"), "{error}");
        }
        check_model(&model(&field(13, &dimension(1)))).unwrap();
        // More than the enclosing message, less than the file.
        let inner = declared(1, 4, b"x");
        let error = refused(&[model(&field(13, &inner)), field(2, b"producer")].concat());
        assert!(error.contains("4 bytes where 1 are left"), "{error}");
    }

    #[test]
    fn what_is_no_list_occurs_once() {
        let external = [number(14, 1), field(13, &field(1, b"location"))].concat();
        let tensor = |bytes: &[u8]| field(5, bytes);
        for bytes in [
            [model(b""), model(b"")].concat(),
            model(&field(5, &[field(9, b"1234"), field(9, b"")].concat())),
            model(&field(5, &[number(14, 0), number(14, 0)].concat())),
            attribute(&[tensor(b""), tensor(b"")].concat()),
            attribute(&[field(6, b""), field(6, b"")].concat()),
            attribute(&[number(3, 1), number(3, 1)].concat()),
        ] {
            let error = refused(&bytes);
            assert!(error.contains("twice"), "{error}");
        }
        // One of the two is in another file: refused for the first reason that is met.
        assert!(check_model(&attribute(&[tensor(&external), tensor(b"")].concat())).is_err());
        assert!(check_model(&attribute(&[tensor(b""), tensor(&external)].concat())).is_err());
    }

    #[test]
    fn values_in_another_file_are_refused_wherever_a_tensor_is() {
        let external = number(14, 1);
        let wide = number(14, (1 << 32) + 1);
        for tensor in [&external, &wide] {
            for bytes in [
                model(&field(5, tensor)),
                attribute(&field(5, tensor)),
                attribute(&field(10, tensor)),
                attribute(&field(22, &field(1, tensor))),
                attribute(&field(23, &field(2, tensor))),
                attribute(&field(6, &field(5, tensor))),
                attribute(&field(11, &field(15, &field(1, tensor)))),
            ] {
                let error = refused(&bytes);
                assert!(error.contains("another file"), "{error}");
            }
        }
        check_model(&model(&field(5, &number(14, 0)))).unwrap();
    }

    #[test]
    fn wire_types_are_those_of_the_fields() {
        let mut group = Vec::new();
        encode_varint(99 << 3 | 3, &mut group);
        for bytes in [
            number(7, 1),
            model(&field(5, &number(9, 1))),
            model(&field(5, &field(14, &[1]))),
            attribute(&field(2, &[0; 4])),
            group,
            vec![7],
            vec![0x0e, 1],
        ] {
            let error = refused(&bytes);
            assert!(error.contains("field"), "{error}");
        }
        // Unknown fields of a known type are for newer versions.
        check_model(
            &[
                field(100, b"new"),
                number(101, 7),
                vec![0xad, 6, 0, 0, 0, 0],
            ]
            .concat(),
        )
        .unwrap();
    }

    #[test]
    fn packed_values_fill_their_length() {
        let tensor = |bytes: &[u8]| model(&field(5, bytes));
        for (number, whole, part) in [
            (1, &[1, 0x80, 1][..], &[1, 0x80][..]),
            (4, &[0; 8], &[0; 7]),
            (10, &[0; 16], &[0; 12]),
        ] {
            check_model(&tensor(&field(number, whole))).unwrap();
            assert!(
                check_model(&tensor(&field(number, part))).is_err(),
                "{number}"
            );
        }
        // A varint of eleven bytes, and one of ten that has 65 bits.
        assert!(refused(&tensor(&field(1, &[0xff; 11]))).contains("64 bits"));
        let largest = [&[0xff; 9][..], &[1]].concat();
        check_model(&tensor(&field(1, &largest))).unwrap();
        let larger = [&[0xff; 9][..], &[2]].concat();
        assert!(refused(&tensor(&field(1, &larger))).contains("64 bits"));
    }

    #[test]
    fn messages_are_counted_and_nested_within_limits() {
        // Types inside one another, which rten decodes by recursion.
        let mut nested = Vec::new();
        for _ in 0..100_000 / 8 {
            nested = field(4, &field(1, &nested));
        }
        let error = refused(&model(&field(11, &field(2, &nested))));
        assert!(error.contains("inside one another"), "{error}");
        // Two bytes each, for which a runtime allocates hundreds.
        let many = field(5, b"").repeat(MAX_MESSAGES);
        let error = refused(&model(&field(1, &many)));
        assert!(error.contains("messages"), "{error}");
        check_model(&model(&field(1, &many[..many.len() / 2]))).unwrap();
        let error = refused(&model(&field(1, &field(1, b"").repeat(MAX_FIELDS))));
        assert!(error.contains("fields"), "{error}");
    }
}
