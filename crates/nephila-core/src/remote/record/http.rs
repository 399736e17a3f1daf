//! The frozen enumeration of HTTP status codes in a record: one byte.
//!
//! 0 is "no status", 1 and up are the registered status codes in ascending order, 255 is any other status. The table
//! never changes, whatever is registered later.

/// The status codes, in the order of their numbers; the first has number 1.
pub const STATUS_CODES: [u16; 63] = [
    100, 101, 102, 103, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 306,
    307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418,
    421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
];

/// The number of a status that is not in the table.
const OTHER: u8 = 255;

/// The `http` field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Http {
    /// There was no response.
    None,
    /// A status of the table.
    Status(u16),
    /// A status that is not in the table.
    Other,
}

impl Http {
    /// The field for a response with this status.
    pub fn of_status(status: u16) -> Http {
        if STATUS_CODES.binary_search(&status).is_ok() { Http::Status(status) } else { Http::Other }
    }

    /// The number in the record.
    pub fn number(self) -> u8 {
        match self {
            Http::None => 0,
            Http::Other => OTHER,
            Http::Status(status) => {
                let place = STATUS_CODES.binary_search(&status).ok();
                place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or(OTHER)
            }
        }
    }

    /// The field with this number.
    pub fn by_number(number: u8) -> Option<Http> {
        match number {
            0 => Some(Http::None),
            OTHER => Some(Http::Other),
            _ => STATUS_CODES.get(usize::from(number) - 1).copied().map(Http::Status),
        }
    }
}
