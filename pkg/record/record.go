// Package record is the codec of the toolkit's streams: records, dead letters
// and acknowledgements, as sf2loki-record(5) describes them. It is on the hot
// path of every program: reading and writing allocate nothing per record once
// the buffers have grown.
package record

import "time"

// Pair is one name with its value: a label or a piece of structured metadata.
type Pair struct{ Name, Value []byte }

// Record is one line of the record stream. A slice that is nil is absent; one
// that is empty and not nil was there and empty. What a Reader fills aliases
// the Reader's buffers and is valid until its next Read.
type Record struct {
	// Time is the entry's time in nanoseconds since the epoch; HasTime tells
	// whether the record has one (only records without an entry may lack it).
	Time    int64
	HasTime bool

	Labels   []Pair // in the order of the input; names may repeat
	Metadata []Pair

	// Line is the text of the entry. EscapedLine, for writers only, is the
	// same text already escaped as the inside of a JSON string, and wins.
	Line        []byte
	EscapedLine []byte

	Key   []byte // checkpoint_key
	Value []byte // checkpoint_value
	// EscapedValue is the checkpoint_value escaped as the inside of a JSON
	// string, and wins over Value. A Reader fills it instead of Value if it is
	// asked to.
	EscapedValue []byte

	Origin []byte

	CheckpointOnly bool
	Account        []byte // JSON object, as it stands in the text
	Run            []byte // JSON object, as it stands in the text

	Reason        []byte // of a dead letter
	DeadLetter    []byte // JSON object, as it stands in the text
	PayloadBase64 []byte // of a dead letter that has no line
	SchemaID      []byte

	// Raw is the whole text of the object as it was read, white space and
	// unknown fields included. Writers ignore it.
	Raw []byte
}

// Run is one end of a program's run, as it travels through the streams.
type Run struct {
	Program string    `json:"program"`
	RunID   string    `json:"run_id"`
	At      time.Time `json:"at"`
	// Status is the exit status; nil on the line that begins the run.
	Status *int `json:"status,omitempty"`
}

// Account is what a source did with one file, page or log: rows read and what
// became of those that are not among the records.
type Account struct {
	Origin           string `json:"origin"`
	EventType        string `json:"event_type"`
	Interval         string `json:"interval,omitempty"`
	LogDate          string `json:"log_date,omitempty"`
	Bytes            int64  `json:"bytes"`
	Rows             int64  `json:"rows"`
	ResumedAfter     int64  `json:"resumed_after,omitempty"` // rows that an earlier run had passed
	Filtered         int64  `json:"filtered"`
	SampledOut       int64  `json:"sampled_out"`
	SkippedDuplicate int64  `json:"skipped_duplicate"`
	DeadLettered     int64  `json:"dead_lettered"`
	SourceGaps       int64  `json:"source_gaps,omitempty"` // letters of the stream that stand for no row

	// What became of the records, when an acknowledgement repeats the account.
	Settled   bool  `json:"-"` // tells whether the three are there
	Delivered int64 `json:"-"`
	Rejected  int64 `json:"-"`
	Dropped   int64 `json:"-"`
}

// Ack says that every record of Key up to Value is settled.
type Ack struct {
	Key, Value   string
	EscapedValue []byte // for writers only, as in Record: wins over Value
	Time         int64  // of the token's record; HasTime false when it had none
	HasTime      bool
	Delivered    int64 // entries that Loki stored
	Rejected     int64 // entries captured durably as dead letters
	Dropped      int64 // entries with no destination, or given up on purpose

	Account []byte // JSON object with delivered, rejected, dropped added; or nil
	Run     []byte // JSON object; an ack with Run has no Key
}

// Reason is why an entry became a dead letter: a closed set, explained in
// sf2loki-deadletter(5).
type Reason string

// The reasons.
const (
	LineTooLong        Reason = "line_too_long"
	TooOld             Reason = "too_old"
	TooNew             Reason = "too_new"
	TooFarBehind       Reason = "too_far_behind"
	InvalidLabels      Reason = "invalid_labels"
	InvalidMetadata    Reason = "invalid_metadata"
	MetadataDisallowed Reason = "metadata_disallowed"
	MetadataTooLarge   Reason = "metadata_too_large"
	MetadataTooMany    Reason = "metadata_too_many"
	Oversized          Reason = "oversized"
	BadRequest         Reason = "bad_request"
	Budget             Reason = "budget"
	TruncatedCopy      Reason = "truncated_copy"
	InvalidRecord      Reason = "invalid_record"
	DecodeError        Reason = "decode_error"
	SourceGap          Reason = "source_gap"
)

// Letter is what a dead letter adds to the record it was. See AppendLetter.
type Letter struct {
	Reason      Reason
	Truncated   bool // the line came to us already cut
	CapturedAt  time.Time
	MaybeStored bool // a refusal for lateness: the entry may be in the store

	Status   int    // HTTP status of the refusal; 0 when nobody was asked
	Detail   string // the server's own words; cut to MaxDetail bytes
	Stage    string // push, pull, check
	RunID    string
	Instance string
	Org      string
	Tenant   string
}

// MaxDetail bounds the server's words that a dead letter keeps, in bytes.
const MaxDetail = 512
