// Package spool keeps dead letters in a directory: files that a writer appends
// to and closes, journals that say what became of each record, and the
// selection of records by what they hold. sf2loki-deadletter(5) describes the
// files.
//
// The files of one capture file FILE lie beside it and make one group:
//
//	FILE                   what was captured
//	FILE.journal           the fate of each of its records
//	FILE.failed            records that a replay brought back refused
//	FILE.failed.journal    the fates of those
//	FILE.replayed, FILE.failed.replayed   files of which nothing is left to do
//
// A writer holds a flock on the file that it writes, and whoever replays holds
// one on every data file of the group, so that neither disturbs the other and
// nobody removes what is in use.
package spool

import (
	"log/slog"
	"time"
)

// Config says how a Writer keeps its directory.
type Config struct {
	Dir      string
	Instance string // begins the files' names, so that several may share a directory

	FileBytes int64         // a file is closed when the next record would pass this; 8 MiB
	Bytes     int64         // the most that the directory holds; 64 MiB
	Retention time.Duration // how long a closed file is kept; 7 days, below zero for ever

	FileIdle time.Duration // a file is closed this long after its last record; 1 minute
	FileAge  time.Duration // and this long after its first; 15 minutes

	Now func() time.Time
	Log *slog.Logger
}

const (
	defaultFileBytes = 8 << 20
	defaultBytes     = 64 << 20
	defaultRetention = 7 * 24 * time.Hour
	defaultFileIdle  = time.Minute
	defaultFileAge   = 15 * time.Minute

	// upkeepEvery is how often a writer looks at its directory without being
	// asked to write: retention is not to wait for the next dead letter.
	upkeepEvery = time.Minute
)

func (c *Config) setDefaults() {
	if c.FileBytes <= 0 {
		c.FileBytes = defaultFileBytes
	}
	if c.Bytes <= 0 {
		c.Bytes = defaultBytes
	}
	if c.Retention == 0 {
		c.Retention = defaultRetention
	}
	if c.FileIdle <= 0 {
		c.FileIdle = defaultFileIdle
	}
	if c.FileAge <= 0 {
		c.FileAge = defaultFileAge
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Stats is what a Writer did, and what lies in its directory as far as the
// last look at the disk told.
type Stats struct {
	Entries     int64 // captured durably
	Bytes       int64
	WriteErrors int64

	// PrunedUnreplayed counts by reason the records that were removed, by
	// age or for room, although no replay had brought them home.
	PrunedUnreplayed map[string]int64

	Stock Stock
}
