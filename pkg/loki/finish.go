package loki

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// finalize is called once for each batch, when all of its entries are decided:
// the breaker is asked, what was refused is captured, then all is settled.
func (e *Engine) finalize(b *batch) {
	if e.failed != nil {
		return // unsettled, so a restart sees it again
	}
	if e.cfg.DryRun {
		e.settleBatch(b, false)
		return
	}
	if e.trips(b) {
		return
	}
	if e.cfg.Capture == nil || !e.hasLetters(b) {
		e.settleBatch(b, false)
		return
	}
	e.captureQueue = append(e.captureQueue, b)
	if !e.capturing {
		e.capturing = true
		go e.captureAll()
	}
}

func (e *Engine) hasLetters(b *batch) bool {
	for i := range b.entries {
		if e.isLetter(&b.entries[i]) {
			return true
		}
	}
	return false
}

func (e *Engine) isLetter(en *entry) bool {
	switch en.state {
	case entryRefused, entryVerbatim:
		return true
	case entryOverrun:
		return e.cfg.CaptureBudget
	case entryStored:
		return en.cut && e.cfg.CaptureFull
	}
	return false
}

// captureAll captures what is queued, one batch after the other, and settles
// it. It runs in a goroutine of its own while there is anything to do.
func (e *Engine) captureAll() {
	for {
		e.mu.Lock()
		if len(e.captureQueue) == 0 || e.failed != nil {
			e.capturing = false
			e.kick()
			e.mu.Unlock()
			return
		}
		b := e.captureQueue[0]
		e.captureQueue = e.captureQueue[1:]
		e.mu.Unlock()

		letters := e.letters(b)
		taken, err := e.cfg.Capture(e.captureCtx, letters)

		e.mu.Lock()
		e.captured(b, letters, taken, err)
		e.mu.Unlock()
	}
}

// captured takes in how a capture ended.
func (e *Engine) captured(b *batch, letters [][]byte, taken bool, err error) {
	if err != nil {
		e.captureErrors++
		if e.cfg.CaptureOrStop {
			if !sysexits.Coded(err) {
				err = sysexits.Wrap(sysexits.IOErr, err)
			}
			e.fail(fmt.Errorf("capture dead letters: %w", err))
			return
		}
		e.log.Error("dead letters could not be captured and are lost", "letters", len(letters), "err", err)
	}
	taken = taken && err == nil
	if taken {
		e.countLetters(b, letters)
	}
	e.settleBatch(b, taken)
	e.kick()
}

func (e *Engine) countLetters(b *batch, letters [][]byte) {
	for _, l := range letters {
		e.letterBytes += int64(len(l))
	}
	for i := range b.entries {
		en := &b.entries[i]
		switch {
		case !e.isLetter(en):
		case en.state == entryStored:
			e.letterCounts[record.TruncatedCopy]++
		default:
			e.letterCounts[b.faults[en.fault].reason]++
		}
	}
}

// settleBatch gives every entry of a batch its fate and frees its memory.
func (e *Engine) settleBatch(b *batch, captured bool) {
	wall := time.Now().UnixNano()
	for i := range b.entries {
		en := &b.entries[i]
		if en.state != entryMoved {
			e.tracker.settle(en.node, e.settleEntry(b, en, captured, wall))
		}
	}
	for i := range b.entries {
		if en := &b.entries[i]; en.state != entryMoved {
			e.tracker.own(en.node, en.seq)
		}
	}
	e.memory -= int64(b.mem.size) + int64(len(b.entries))*entryBytes + int64(b.reasons)
	e.blocks.max = int(e.cfg.BufferBytes - e.memory) // what is free counts too
	b.mem.release(&e.blocks)
	e.lastSettled = e.now()
	e.acksDue = e.lastSettled
	e.recycle(b)
	e.updateUsed()
}

// settleEntry counts what became of an entry.
func (e *Engine) settleEntry(b *batch, en *entry, captured bool, wall int64) fate {
	a := en.account
	a.Unsettled--
	e.waiting--
	if en.state == entryStored {
		a.Delivered++
		a.Lag.observe(time.Duration(wall - en.time))
		return fateDelivered
	}
	reason := b.faults[en.fault].reason
	a.refuse(reason)
	switch {
	case en.state == entryOverrun && !(captured && e.cfg.CaptureBudget):
		a.DroppedBudget++
	case captured:
		a.DeadLettered++
		return fateRejected
	default:
		a.Discarded[reason]++
	}
	return fateDropped
}

// letters makes the dead letters of a batch from the records' own texts.
func (e *Engine) letters(b *batch) [][]byte {
	var one rawText
	reader := record.NewReader(&one)
	now := time.Now().UTC()
	var letters [][]byte
	var rec record.Record
	for i := range b.entries {
		en := &b.entries[i]
		if !e.isLetter(en) {
			continue
		}
		one.text = en.raw()
		// These texts have been read before, so the only error is that of an
		// object that is no record, which is a letter all the same.
		_ = reader.Read(&rec)
		letters = append(letters, e.letter(b, en, &rec, now))
	}
	return letters
}

// rawText gives out the text of one record after the other, each with the line
// feed that it was read with.
type rawText struct{ text []byte }

func (r *rawText) Read(p []byte) (int, error) {
	n := copy(p, r.text)
	if r.text = r.text[n:]; len(r.text) == 0 && n < len(p) {
		p[n] = '\n'
		n++
	}
	return n, nil
}

// letterBytes is more than a dead letter has beside its record, as a rule.
const letterBytes = 1500

func (e *Engine) letter(b *batch, en *entry, rec *record.Record, now time.Time) []byte {
	if en.state == entryVerbatim && rec.DeadLetter != nil {
		var line bytes.Buffer
		if json.Compact(&line, en.raw()) == nil {
			line.WriteByte('\n')
			return line.Bytes()
		}
	}
	l := record.Letter{
		Truncated: cutBefore(rec.Line), CapturedAt: now, Stage: stageCheck,
		RunID: e.RunID(), Instance: e.cfg.Instance, Org: e.cfg.Org, Tenant: e.cfg.Tenant,
	}
	if l.Org == "" {
		l.Org = labelValue(rec.Labels, "org")
	}
	if en.state == entryStored {
		l.Reason, l.Detail = record.TruncatedCopy, fmt.Sprintf("pushed with the line cut to %d bytes", e.cfg.MaxLine)
		return record.AppendLetter(make([]byte, 0, len(en.raw())+letterBytes), rec, &l)
	}
	f := &b.faults[en.fault]
	l.Reason, l.Status, l.Detail, l.Stage = f.reason, f.status, f.detail, f.stage
	l.MaybeStored = f.reason == record.TooOld || f.reason == record.TooFarBehind
	if en.state == entryVerbatim {
		l.Stage = "pull"
	}
	return record.AppendLetter(make([]byte, 0, len(en.raw())+letterBytes), rec, &l)
}

func labelValue(labels []record.Pair, name string) string {
	for _, p := range labels {
		if string(p.Name) == name {
			return string(p.Value)
		}
	}
	return ""
}

// cutBefore tells whether a line bears the marker that AppendCut leaves.
func cutBefore(line []byte) bool {
	return bytes.HasSuffix(line, []byte(" bytes]")) && bytes.Contains(line[max(0, len(line)-64):], []byte("…[truncated, original "))
}

// writeAcks starts the writing of what has become due, unless the last writing
// is still under way: acknowledgements that have to wait grow into fewer ones.
func (e *Engine) writeAcks(now time.Duration, last bool) {
	if e.writing || e.writeError != nil {
		return
	}
	if e.acksDue == 0 || e.acksDue > now {
		if len(e.lines) == 0 && !last {
			return
		}
	} else {
		e.acksDue = 0
		e.tracker.acks(e.appendAck)
		e.updateUsed()
	}
	if last {
		e.tracker.acks(e.appendAck)
		e.tracker.flushRuns(e.appendAck)
	}
	if len(e.lines) == 0 {
		return
	}
	lines := e.lines
	e.lines = e.linesSpare[:0]
	e.writing = true
	go func() {
		_, err := e.acks.Write(lines)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.writing = false
		e.linesSpare = lines
		if err != nil {
			e.writeError = err
			e.fail(sysexits.Wrap(sysexits.IOErr, fmt.Errorf("write acknowledgements: %w", err)))
		}
		e.kick()
	}()
}

func (e *Engine) appendAck(a *record.Ack) {
	if e.cfg.DryRun && a.Run == nil {
		return
	}
	if a.Run == nil {
		e.ackCount++
	}
	e.lines = record.AppendAck(e.lines, a)
}

// begin writes the lines that begin a run: the input's, when that is the first
// thing in it, then this program's own, which bears the same run id.
func (e *Engine) begin(first []byte) {
	if e.begun {
		return
	}
	e.begun = true
	id := e.cfg.RunID
	if first != nil {
		if run, err := record.ParseRun(first); err == nil && run.RunID != "" {
			id = run.RunID
		}
		e.lines = record.AppendAck(e.lines, &record.Ack{Run: first})
	}
	e.runID.Store(&id)
	if e.cfg.OnBegin != nil {
		e.lines = append(e.lines, e.cfg.OnBegin(id)...)
	}
}

// RunID is the run id of the pipe, once the first record has told it.
func (e *Engine) RunID() string {
	if id := e.runID.Load(); id != nil {
		return *id
	}
	return e.cfg.RunID
}

// result is how the run ended.
func (e *Engine) result() error {
	switch {
	case e.failed != nil:
		return e.failed
	case e.in.err != nil:
		return e.in.err
	case e.waiting > 0 || e.graceOver:
		return e.unsettledError()
	case e.cfg.Strict && e.rejects() > 0:
		return sysexits.Errorf(sysexits.DataErr, "%d entries were refused (--strict)", e.rejects())
	}
	return e.runsError()
}

func (e *Engine) unsettledError() error {
	text := fmt.Sprintf("%d records are not settled", e.waiting)
	if e.graceOver && !e.in.ended {
		text = "the input did not end within --grace; " + text
	} else if e.graceOver && e.waiting == 0 {
		text = "the acknowledgements were not taken within --grace"
	}
	if why := e.holding(); why != "" {
		text += ": " + why
	}
	return sysexits.Wrap(sysexits.TempFail, errors.New(text))
}
