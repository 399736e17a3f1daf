//! What a table is: columns with a type, and rows with a cell for each.
//!
//! The macro [`table!`] makes the row and its columns from one list, so that schema, documentation and writer cannot
//! differ.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// 16 bits.
    Short,
    /// 32 bits.
    Int,
    /// 64 bits.
    Long,
    /// Milliseconds since 1970, UTC.
    Time,
    /// Yes or no.
    Bool,
}

impl Kind {
    /// The type in the notation of Parquet schemas.
    pub(crate) const fn in_schema(self, name: &str) -> (&'static str, &str, &'static str) {
        match self {
            Kind::Text => ("BYTE_ARRAY", name, " (STRING)"),
            Kind::Short => ("INT32", name, " (INTEGER(16,true))"),
            Kind::Int => ("INT32", name, ""),
            Kind::Long => ("INT64", name, ""),
            // Not "adjusted to UTC": engines then show the time without a zone, as they do for Common Crawl's tables.
            Kind::Time => ("INT64", name, " (TIMESTAMP(MILLIS,false))"),
            Kind::Bool => ("BOOLEAN", name, ""),
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// Whether a row may have no value.
    pub is_nullable: bool,
    /// The meaning.
    pub doc: &'static str,
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A text.
    Text(&'a str),
    /// A number of at most 32 bits.
    Int(i32),
    /// A larger number, or a time.
    Long(i64),
    /// Yes or no.
    Bool(bool),
}

/// A row of a table.
pub trait Row {
    /// Name of the table.
    const TABLE: &'static str;
    /// The columns, in order.
    const COLUMNS: &'static [Column];
    /// The value in a column.
    fn cell(&self, column: usize) -> Cell<'_>;
    /// Memory of the texts in bytes, about.
    fn bytes(&self) -> usize;
}

/// A Rust type that can be in a column.
pub(crate) trait Value {
    const KIND: Kind;
    const IS_NULLABLE: bool = false;
    fn cell(&self) -> Cell<'_>;
}

/// A time in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub i64);

impl Value for String {
    const KIND: Kind = Kind::Text;
    fn cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }
}

impl Value for i16 {
    const KIND: Kind = Kind::Short;
    fn cell(&self) -> Cell<'_> {
        Cell::Int(i32::from(*self))
    }
}

impl Value for i32 {
    const KIND: Kind = Kind::Int;
    fn cell(&self) -> Cell<'_> {
        Cell::Int(*self)
    }
}

impl Value for i64 {
    const KIND: Kind = Kind::Long;
    fn cell(&self) -> Cell<'_> {
        Cell::Long(*self)
    }
}

impl Value for Millis {
    const KIND: Kind = Kind::Time;
    fn cell(&self) -> Cell<'_> {
        Cell::Long(self.0)
    }
}

impl Value for bool {
    const KIND: Kind = Kind::Bool;
    fn cell(&self) -> Cell<'_> {
        Cell::Bool(*self)
    }
}

impl<T: Value> Value for Option<T> {
    const KIND: Kind = T::KIND;
    const IS_NULLABLE: bool = true;
    fn cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, T::cell)
    }
}

/// Makes the struct of a row and its columns.
macro_rules! table {
    ($(#[doc = $about:literal])+ $table:literal $row:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $row {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl $crate::table::Row for $row {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [$crate::table::Column] = &[$($crate::table::Column {
                name: stringify!($field),
                kind: <$type as $crate::table::Value>::KIND,
                is_nullable: <$type as $crate::table::Value>::IS_NULLABLE,
                doc: concat!($($doc),+),
            },)+];

            fn cell(&self, column: usize) -> $crate::table::Cell<'_> {
                let mut at = 0;
                $(if column == at {
                    return $crate::table::Value::cell(&self.$field);
                }
                at += 1;)+
                unreachable!("column {column} of {at}")
            }

            fn bytes(&self) -> usize {
                let text = |cell: $crate::table::Cell<'_>| match cell {
                    $crate::table::Cell::Text(text) => text.len(),
                    _ => 0,
                };
                size_of::<$row>() $(+ text($crate::table::Value::cell(&self.$field)))+
            }
        }
    };
}
pub(crate) use table;
