// Package outlet is the way out of the sources: where their records and dead
// letters go, in which sizes, and what dead letters say about the run. Their
// form stands in sf2loki-record(5) and sf2loki-deadletter(5).
package outlet

import (
	"encoding/json"
	"fmt"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
	"sf2loki/pkg/tally"
)

const (
	BlockSize = 32 << 10 // records are handed on in blocks of about this size
	MaxRecord = 32 << 20 // readers of the stream take no longer object
)

// Output is where records and dead letters go.
type Output struct {
	// Records writes whole lines to the record stream. Several goroutines call
	// it; the lines of one call must stay together.
	Records func(lines []byte) error
	// Letter writes one dead letter durably. nil: letters go among the records.
	Letter func(line []byte) error

	RunID, Instance, Org string // what letters say about the run
	Now                  func() time.Time
	Secrets              *secret.Set // that a letter's detail, the words of a server perhaps, must not hold
}

// HandOn writes a block of records and returns one to go on with. A block that
// has grown far beyond its size is not kept, nor is one that failed, lest it be
// written twice.
func (o *Output) HandOn(block []byte) ([]byte, error) {
	if len(block) > 0 {
		if err := o.Records(block); err != nil {
			return nil, err
		}
	}
	if cap(block) > 8*BlockSize {
		return nil, nil
	}
	return block[:0], nil
}

// AppendLetter writes rec as a dead letter: to its own place at once, or behind
// the records of block, which it returns.
func (o *Output) AppendLetter(block []byte, stats *tally.Stats, rec *record.Record, l *record.Letter) ([]byte, error) {
	l.CapturedAt, l.Stage = o.Now().UTC(), "pull"
	l.RunID, l.Instance, l.Org = o.RunID, o.Instance, o.Org
	l.Detail = o.Secrets.Hide(l.Detail)
	if o.Letter == nil {
		begin := len(block)
		block = record.AppendLetter(block, rec, l)
		stats.Letter(string(l.Reason), len(block)-begin)
		return block, nil
	}
	line := record.AppendLetter(nil, rec, l)
	if err := o.Letter(line); err != nil {
		stats.Change(func(t *tally.Totals) { t.LetterErrors++ })
		return block, sysexits.Wrap(sysexits.IOErr, fmt.Errorf("write a dead letter: %w", err))
	}
	stats.Letter(string(l.Reason), len(line))
	return block, nil
}

// SetGap makes rec stand for something that could not be had, which what tells
// in the member gap.
func SetGap(rec *record.Record, what any) error {
	b, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("source gap: %w", err)
	}
	text := record.AppendRecord(nil, rec)
	text = append(text[:len(text)-len("}\n")], `,"gap":`...)
	rec.Raw = append(append(text, b...), '}')
	return nil
}
