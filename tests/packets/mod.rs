//! All packets there can be, and where their lengths are.

pub(crate) mod strategies;

use mqbridge::mqqb::wire::{QueueField, UserMessage};

/// The name, offset and width of every length in an encoded message.
pub(crate) fn length_fields(message: &UserMessage) -> Vec<(&'static str, usize, usize)> {
    let mut fields = vec![("BaseHeader.PacketSize", 8, 4)];
    for (header, part) in message.layout().unwrap() {
        let start = part.start;
        match header {
            "UserHeader" => {
                let mut at = start + 48;
                for queue in [&message.user.destination, &message.user.admin, &message.user.response] {
                    if let QueueField::Direct(_) = queue {
                        fields.push(("Count", at, 2));
                    }
                    at += queue.to_wire().len().next_multiple_of(4);
                }
            }
            "SecurityHeader" => {
                fields.push(("SenderIdSize", start + 2, 2));
                fields.push(("EncryptionKeySize", start + 4, 2));
                fields.push(("SignatureSize", start + 6, 2));
                fields.push(("SenderCertSize", start + 8, 4));
                fields.push(("ProviderInfoSize", start + 12, 4));
            }
            "MessagePropertiesHeader" => {
                fields.push(("LabelLength", start + 1, 1));
                fields.push(("MessageSize", start + 32, 4));
                fields.push(("AllocationBodySize", start + 36, 4));
                fields.push(("ExtensionSize", start + 52, 4));
            }
            "SoapHeader" => {
                let header = &message.soap.as_ref().unwrap().header;
                let text = header.text.as_ref().map_or(0, |text| text.units() * 2 + 2);
                fields.push(("HeaderDataLength", start + 4, 4));
                fields.push(("BodyDataLength", start + 8 + text + header.padding.len() + 4, 4));
            }
            "MultiQueueFormatHeader" => {
                let lists = message.multi_queue.as_ref().unwrap();
                let mut at = start;
                for list in [&lists.destination, &lists.administration, &lists.response] {
                    fields.push(("HeaderSize", at, 4));
                    fields.push(("ElementCount", at + 8, 4));
                    at += list.header_size().next_multiple_of(4);
                }
                fields.push(("MQFSignatureHeader.Size", at + 4, 4));
            }
            _ => {}
        }
    }
    fields
}
