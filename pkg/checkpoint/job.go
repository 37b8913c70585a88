package checkpoint

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// lastWrite bounds the write that a job still makes when its time is over.
const lastWrite = 5 * time.Second

// JobConfig is what a Job needs.
type JobConfig struct {
	Acks       interface{ Read(*record.Ack) error }
	Committer  *Committer
	Ledger     *Ledger       // nil: none is kept
	Interval   time.Duration // at most one write in this time
	AllowEmpty bool          // input without anything is no failure
	Log        *slog.Logger

	OnRun   func(runID string) // called with the id of the first run of the input
	OnWrite func([]Position)   // called with what was stored
}

// Job turns one stream of acknowledgements into positions.
type Job struct {
	cfg  JobConfig
	wake chan struct{} // has room for one: something waits for the next write

	mu       sync.Mutex
	totals   map[Key]*Totals
	order    []Key
	objects  int64 // read, run lines included
	runs     record.Runs
	lost     map[string]*lostEntries // by key, since its last account
	bad      int64                   // acknowledgements of keys that are no positions
	firstBad string
	stopped  bool
}

// Totals is the account of one source and object: Acks is the sum of Written,
// Superseded and Refused once the job has ended.
type Totals struct {
	Source     string `json:"source"`
	Object     string `json:"object"`
	Acks       int64  `json:"acks"`
	Written    int64  `json:"written"`
	Superseded int64  `json:"superseded"`
	Refused    int64  `json:"refused"`

	// As the acknowledgements say; Settled counts accounts.
	Delivered int64 `json:"delivered"`
	Rejected  int64 `json:"rejected"`
	Dropped   int64 `json:"dropped"`
	Settled   int64 `json:"settled"`
}

// NewJob returns a job that has not begun.
func NewJob(cfg JobConfig) *Job {
	if cfg.OnRun == nil {
		cfg.OnRun = func(string) {}
	}
	if cfg.OnWrite == nil {
		cfg.OnWrite = func([]Position) {}
	}
	return &Job{cfg: cfg, wake: make(chan struct{}, 1), totals: make(map[Key]*Totals), lost: make(map[string]*lostEntries)}
}

// Run reads until the input ends, and stores what it has read. Its error is
// its own, else what the input says of the stages before. When ctx is done it
// stores what it has and returns the cause.
func (j *Job) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- j.read() }() // stays in Read when the job ends before its input
	err := j.loop(ctx, ended)
	j.stop()
	return err
}

func (j *Job) loop(ctx context.Context, ended <-chan error) error {
	var due <-chan time.Time
	for {
		select {
		case <-j.wake:
			if due == nil {
				due = time.After(j.cfg.Interval)
			}
		case <-due:
			due = nil
			if err := j.write(ctx); err != nil {
				return err
			}
		case err := <-ended:
			if failed := j.write(ctx); failed != nil {
				return failed
			}
			return j.verdict(err)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
			defer cancel()
			if err := j.write(last); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	}
}

// read takes in acknowledgements until the input ends.
func (j *Job) read() error {
	var ack record.Ack // one for all: with millions it is most of the garbage
	for {
		err := j.cfg.Acks.Read(&ack)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = j.take(&ack)
		}
		if err != nil && !sysexits.Coded(err) {
			err = sysexits.Wrap(sysexits.IOErr, err)
		}
		if err != nil {
			return fmt.Errorf("read acknowledgements: %w", err)
		}
	}
}

// take takes in one acknowledgement or run line.
func (j *Job) take(ack *record.Ack) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped {
		return nil
	}
	j.objects++
	if ack.Run != nil {
		return j.takeRun(ack.Run)
	}
	t := j.total(ParseKey(ack.Key))
	t.Delivered += ack.Delivered
	t.Rejected += ack.Rejected
	t.Dropped += ack.Dropped
	if ack.Account != nil {
		t.Settled++
	}
	// The account goes first: a write that takes the position must find it.
	if err := j.takeAccount(ack); err != nil {
		return err
	}
	j.takePosition(t, ack)
	j.signal()
	return j.overfull()
}

// overfull ends a job whose input names more keys than there can be.
func (j *Job) overfull() error {
	if err := j.cfg.Committer.overfull(); err != nil {
		return err
	}
	return fits(0, max(len(j.totals), len(j.lost)))
}

func (j *Job) takePosition(t *Totals, ack *record.Ack) {
	switch {
	case ack.Value == "": // an account alone
	case strings.HasPrefix(ack.Key, DeadLetterPrefix), Reserved(ack.Key):
		t.Acks++
		t.Refused++
		j.refuseKey(ack.Key)
	default:
		t.Acks++
		if j.cfg.Committer.Stage(position(ack)) {
			t.Superseded++
		}
	}
}

func (j *Job) takeRun(text []byte) error {
	if err := j.runs.Note(text); err != nil {
		return err
	}
	j.cfg.OnRun(j.runs.ID)
	return nil
}

// lostEntries were refused and captured nowhere. The account of their file will
// tell of them; the ledger does when a position passes them before, for a run
// that is cut off has no account.
type lostEntries struct {
	dropped  int64
	position string // behind them
	at       int64  // time of the last record
	told     bool
}

func (j *Job) takeAccount(ack *record.Ack) error {
	if j.cfg.Ledger == nil {
		return nil
	}
	if ack.Account == nil {
		j.takeLoss(ack)
		return nil
	}
	delete(j.lost, ack.Key)
	return j.cfg.Ledger.Add(j.runs.ID, ack.Key, ack.Account)
}

func (j *Job) takeLoss(ack *record.Ack) {
	if ack.Dropped == 0 {
		return
	}
	l := j.lost[ack.Key]
	if l == nil {
		l = &lostEntries{}
		j.lost[ack.Key] = l
	}
	l.dropped, l.position, l.at, l.told = l.dropped+ack.Dropped, ack.Value, ack.Time, false
}

// refuseKey says once, and counts, that the input is not for a document.
func (j *Job) refuseKey(key string) {
	if j.bad == 0 {
		j.firstBad = key
		j.cfg.Log.Error("acknowledgement refused: its key is not one of a document", "key", key)
	}
	j.bad++
}

func position(ack *record.Ack) Position {
	p := Position{Key: ack.Key, Value: ack.Value}
	if ack.HasTime {
		p.Time = time.Unix(0, ack.Time).UTC()
	}
	return p
}

func (j *Job) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// write stores what waits: the settled accounts first, so that a position
// never claims what the ledger does not show.
func (j *Job) write(ctx context.Context) error {
	result, err := j.cfg.Committer.Write(ctx, j.flushLedger)
	j.mu.Lock()
	for _, p := range result.Written {
		j.total(ParseKey(p.Key)).Written++
	}
	for _, p := range result.Refused {
		j.total(ParseKey(p.Key)).Refused++
	}
	j.mu.Unlock()
	if len(result.Written) > 0 {
		j.cfg.OnWrite(result.Written)
	}
	return err
}

func (j *Job) flushLedger() error {
	if j.cfg.Ledger == nil {
		return nil
	}
	if err := j.tellLosses(); err != nil {
		return err
	}
	return j.cfg.Ledger.Flush()
}

func (j *Job) tellLosses() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, l := range j.lost {
		if l.told {
			continue
		}
		if err := j.cfg.Ledger.AddLoss(j.runs.ID, key, l.position, l.dropped, l.at); err != nil {
			return err
		}
		l.told = true
	}
	return nil
}

// verdict is how the job ends when everything that it read is stored.
func (j *Job) verdict(stream error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case stream != nil:
		return stream
	case j.bad > 0:
		return sysexits.Errorf(sysexits.DataErr, "%d acknowledgements refused, the first of the key %q: replays have no position", j.bad, j.firstBad)
	case j.objects == 0 && !j.cfg.AllowEmpty:
		return sysexits.Errorf(sysexits.TempFail, "the input was empty: the stage before did not run (--allow-empty if that is as it should be)")
	}
	return j.runs.Err()
}

// stop counts what will not be written any more.
func (j *Job) stop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopped = true
	for _, p := range j.cfg.Committer.take() {
		j.total(ParseKey(p.Key)).Refused++
	}
}

func (j *Job) total(k Key) *Totals {
	k.Org, k.Lane, k.Window = "", "", "" // a row of the report has a source and an event type
	if k.Source == SourceELF {
		k.Object = EventType(k.Object)
	}
	t, ok := j.totals[k]
	if !ok {
		t = &Totals{Source: k.Source, Object: k.Object}
		j.totals[k] = t
		j.order = append(j.order, k)
	}
	return t
}

// Totals returns the account so far, in the order of first appearance.
func (j *Job) Totals() []Totals {
	j.mu.Lock()
	defer j.mu.Unlock()
	totals := make([]Totals, 0, len(j.order))
	for _, k := range j.order {
		totals = append(totals, *j.totals[k])
	}
	return totals
}
