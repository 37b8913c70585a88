package loki

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// input is what is known about the records' source.
type input struct {
	ended bool
	err   error // why it ended; nil at its regular end
	bytes int64
	runs  record.Runs
}

// countingReader tells an input without a single byte from one of white space.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// read takes records until the input ends, the engine stops or a record shows
// that this is the wrong input. It stops reading while memory is full, or enough
// is read.
func (e *Engine) read(in io.Reader) {
	counted := &countingReader{r: in}
	reader := record.NewReader(counted)
	reader.LeaveValues()
	var rec record.Record
	for {
		err := reader.Read(&rec)
		if err == nil {
			err = e.add(&rec, nil)
		} else if invalid := invalidError(err); invalid != nil {
			err = e.add(&rec, invalid)
		}
		if err != nil {
			e.endInput(inputError(err), counted.n)
			return
		}
		if e.full() {
			reader.Trim()
		}
		for e.full() || e.ahead.Load() {
			select {
			case <-e.space:
			case <-e.stopped:
				return
			}
		}
	}
}

func invalidError(err error) *record.InvalidError {
	var invalid *record.InvalidError
	if errors.As(err, &invalid) {
		return invalid
	}
	return nil
}

// inputError gives the end of the input its exit status.
func inputError(err error) error {
	var syntax *record.SyntaxError
	switch {
	case err == io.EOF:
		return nil
	case sysexits.Coded(err):
		return err
	case errors.As(err, &syntax):
		return sysexits.Wrap(sysexits.DataErr, fmt.Errorf("read records: %w", err))
	}
	return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read records: %w", err))
}

func (e *Engine) endInput(err error, n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.in.ended, e.in.err, e.in.bytes = true, err, n
	e.begin(nil)
	e.kick()
}

// add takes one record in. An error ends the input: the record is not taken.
func (e *Engine) add(rec *record.Record, invalid *record.InvalidError) error {
	if err := e.checkTenant(rec); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopping {
		return io.EOF
	}
	if rec.Run != nil && invalid == nil {
		_ = e.in.runs.Note(rec.Run) // what is no run says nothing of one
		if e.begun {
			e.tracker.addRun(rec.Run)
		} else {
			e.begin(rec.Run)
		}
		e.acksDue = e.now()
		e.kickBy(e.acksDue)
		e.updateUsed()
		return nil
	}
	e.begin(nil)
	p := placeOf(rec)
	switch {
	case invalid != nil:
		f := fault{reason: record.InvalidRecord, detail: invalid.Text, stage: stageCheck}
		e.askBreakerHere(&f)
		e.addLocal(rec, e.accountOf(rec), p, entryRefused, f)
	case rec.CheckpointOnly:
		e.addCheckpoint(p)
	case rec.Reason != nil && rec.Line == nil:
		e.addLocal(rec, e.accountOf(rec), p, entryVerbatim, fault{reason: record.Reason(rec.Reason)})
	default:
		e.addEntry(rec, p)
	}
	e.updateUsed()
	return nil
}

// The stages that a dead letter names.
const (
	stagePush  = "push"  // Loki refused it
	stageCheck = "check" // it was judged here
)

// deadletterKey is what the keys of a replay begin with.
var deadletterKey = []byte("deadletter:")

// placeOf is the record's place in the stream. A dead letter that is fed back
// by hand carries the key of a live source, whose position it must not move.
func placeOf(rec *record.Record) position {
	p := position{key: rec.Key, token: rec.EscapedValue, account: rec.Account, time: rec.Time, hasTime: rec.HasTime}
	if rec.DeadLetter != nil && !bytes.HasPrefix(rec.Key, deadletterKey) {
		p.token = nil
	}
	return p
}

// checkTenant refuses a dead letter that was captured for another tenant.
func (e *Engine) checkTenant(rec *record.Record) error {
	if rec.DeadLetter == nil || e.cfg.ForceTenant {
		return nil
	}
	info, err := record.ParseLetter(rec)
	if err != nil || info.Tenant == "" || info.Tenant == e.cfg.Tenant {
		return nil
	}
	return sysexits.Errorf(sysexits.Config, "a dead letter of tenant %q is not for tenant %q: --force-tenant sends it all the same",
		info.Tenant, e.cfg.Tenant)
}

// addCheckpoint takes a record without an entry: it is settled at once, and
// acknowledged with the next batch or flush.
func (e *Engine) addCheckpoint(p position) {
	if p.key == nil || e.cfg.DryRun {
		return
	}
	id := e.tracker.add(p)
	seq := e.tracker.seq
	e.tracker.settle(id, fateNone)
	e.tracker.own(id, seq)
	if e.acksDue == 0 {
		e.acksDue = e.now() + e.cfg.FlushInterval
		e.kickBy(e.acksDue)
	}
}

// addLocal takes a record that is not pushed: a dead letter that came in the
// stream, or one that was judged here.
func (e *Engine) addLocal(rec *record.Record, acct *SourceAccount, p position, s state, f fault) {
	if e.local == nil {
		e.local = e.newBatch(nil)
		e.localOpened = e.now()
		e.kickBy(e.localOpened + e.cfg.FlushInterval)
	}
	b := e.local
	en := e.appendEntry(b, rec, acct, p, 0)
	en.state, en.fault = s, e.addFault(b, f)
	if len(b.entries) >= e.cfg.BatchEntries || b.mem.size >= 4*e.cfg.BatchBytes {
		e.closeLocal()
	}
}

func (e *Engine) closeLocal() {
	b := e.local
	e.local = nil
	e.finalize(b)
}

// addEntry judges an entry and puts it into its stream's batch.
func (e *Engine) addEntry(rec *record.Record, p position) {
	set := e.labels.get(e, rec.Labels)
	ts, md := e.retime(rec, set)
	f := e.judgeEntry(set, ts, md)
	e.askBreakerHere(f)
	if f != nil {
		e.addLocal(rec, set.account, p, entryRefused, *f)
		return
	}
	st := set.stream(e, ts)
	line := rec.Line
	cut := e.cfg.MaxLine > 0 && len(line) > e.cfg.MaxLine
	if cut {
		e.cutLine = AppendCut(e.cutLine[:0], line, e.cfg.MaxLine)
		line = e.cutLine
		set.account.Truncated++
	}
	size := encodedBound(line, md)
	b := e.openBatch(st)
	if len(b.entries) > 0 && b.encoded+size-encodedSlack > e.cfg.BatchBytes {
		e.closeOpen(st)
		e.kick()
		b = e.openBatch(st)
	}
	en := e.appendEntry(b, rec, set.account, p, size)
	en.time, en.cut = ts, cut
	en.lineLen, en.mdPairs, en.mdBytes = int32(len(line)), int32(len(md)), int32(MetadataBytes(md))
	en.mem = b.mem.take(AppendEntry(en.mem, ts, line, e.names.inOrder(md)))
	b.encoded += len(en.mem) - int(en.rawLen)
	b.left++
	if len(b.entries) >= e.cfg.BatchEntries {
		e.closeOpen(st)
		e.kick()
	}
}

// appendEntry adds an entry with the record's text and its place in the
// stream. With room for an encoded form, the caller appends that to mem and
// takes it.
func (e *Engine) appendEntry(b *batch, rec *record.Record, acct *SourceAccount, p position, room int) *entry {
	before := b.mem.size
	token := p.token
	if token != nil {
		p.token = b.mem.take(append(b.mem.room(len(token), &e.blocks), token...))
	}
	raw := append(b.mem.room(len(rec.Raw)+room, &e.blocks), rec.Raw...)
	if room == 0 {
		raw = b.mem.take(raw)
	}
	id := e.tracker.add(p)
	b.entries = append(b.entries, entry{node: id, seq: e.tracker.seq, mem: raw, rawLen: int32(len(rec.Raw)), account: acct})
	e.memory += int64(b.mem.size-before) + entryBytes
	acct.Read++
	acct.Unsettled++
	if e.waiting++; e.waiting == 1 {
		e.firstWaiting = e.now()
	}
	return &b.entries[len(b.entries)-1]
}

// encodedSlack is what encodedBound is too large by for a usual entry.
const encodedSlack = 32

// encodedBound is at least the size of the encoded entry.
func encodedBound(line []byte, md []record.Pair) int {
	n := len(line) + encodedSlack + 12
	for i := range md {
		n += len(md[i].Name) + len(md[i].Value) + 18
	}
	return n
}

// retime returns the time and the metadata to push with.
func (e *Engine) retime(rec *record.Record, set *labelSet) (int64, []record.Pair) {
	ts, md := rec.Time, rec.Metadata
	late := e.cfg.Times == TimeClamp && e.cfg.Limits.MaxAge > 0 && e.wall() > ts+int64(e.cfg.Limits.MaxAge)
	moved := e.cfg.Times == TimeNow || late
	if set.problem != nil || !moved && len(set.demoted) == 0 {
		return ts, md
	}
	e.metadata = append(e.metadata[:0], md...)
	for _, p := range set.demoted {
		e.metadata = addPair(e.metadata, p, "_label")
	}
	if moved {
		e.eventTime = record.AppendTime(e.eventTime[:0], ts)
		e.metadata = addPair(e.metadata, record.Pair{Name: []byte("event_time"), Value: e.eventTime}, "")
		ts = time.Now().UnixNano()
	}
	return ts, e.metadata
}

// addPair adds a pair under its own name; if that is taken, with another value,
// under the name with suffix, or not at all when there is none.
func addPair(pairs []record.Pair, p record.Pair, suffix string) []record.Pair {
	for _, have := range pairs {
		if !bytes.Equal(have.Name, p.Name) {
			continue
		}
		if suffix == "" || bytes.Equal(have.Value, p.Value) {
			return pairs
		}
		return addPair(pairs, record.Pair{Name: append(bytes.Clone(p.Name), suffix...), Value: p.Value}, suffix)
	}
	return append(pairs, p)
}

// judgeEntry tells what Loki would not take. The clock that is looked at
// seldom must not make an entry seem to come from the future.
func (e *Engine) judgeEntry(set *labelSet, ts int64, md []record.Pair) *fault {
	problem := set.problem
	if problem == nil {
		problem = e.cfg.Limits.CheckTime(ts, e.wallNow)
		if problem != nil {
			problem = e.cfg.Limits.CheckTime(ts, e.wall())
		}
	}
	if problem == nil && len(md) > 0 {
		problem = e.cfg.Limits.checkMetadata(md, &e.names)
	}
	if problem == nil {
		return nil
	}
	if problem.Reason == record.TooOld {
		e.noteOldest(ts)
	}
	return &fault{reason: problem.Reason, detail: problem.Text, stage: stageCheck}
}

// wall is the present time in nanoseconds since the epoch.
func (e *Engine) wall() int64 {
	e.wallNow = time.Now().UnixNano()
	return e.wallNow
}
