package loki

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/record"
)

// counters are what the metrics tell beside the accounts.
type counters struct {
	pushes        [2]int64 // requests that were stored, and those that have to be sent again
	bytesPushed   int64    // on the wire
	lastStored    time.Time
	letterCounts  map[record.Reason]int64
	letterBytes   int64
	captureErrors int64
	ackCount      int64
	observe       func(time.Duration)
	logged        answerLog
	progress      int64 // entries settled when the last minute's line was written
}

// answerLog keeps an answer that repeats from filling the log.
type answerLog struct {
	class  Class
	status int
	at     time.Duration
	times  int
}

// OnPush has fn called with the time that each stored request took.
func (e *Engine) OnPush(fn func(took time.Duration)) { e.observe = fn }

// noteAnswer counts an answer, and logs one that is not good: the first of its
// kind, then one a minute.
func (e *Engine) noteAnswer(r *request, v *Verdict, a *Answer) {
	e.bytesPushed += a.Sent
	if v.Class == Stored || v.Class == Partial && v.storesSome(len(r.entries)) {
		e.pushes[0]++
		e.lastStored = time.Now()
		if e.observe != nil {
			e.observe(e.now() - r.began)
		}
		if v.Class == Stored {
			e.logged.class = Stored
			return
		}
	} else {
		e.pushes[1]++
	}
	e.noteSharded(r.stream, v)
	switch v.Class {
	case Partial, Refused, TooLarge:
		e.log.Debug("refused", "answer", v.String(), "detail", v.Detail, "stream", string(r.stream.labels), "entries", len(r.entries))
	case Misconfigured, NotLoki:
		e.logOnce(v.Class, v, r, slog.LevelError, "not stored, and not for the entries' sake: it is tried again")
	default:
		e.logOnce(v.Class, v, r, slog.LevelWarn, "not stored: it is tried again")
	}
}

// noteSharded says that a stream's answers have stopped proving what is stored,
// once for each stream in an hour.
func (e *Engine) noteSharded(st *stream, v *Verdict) {
	now := e.now()
	if !v.Sharded || now-st.sharded < time.Hour {
		return
	}
	st.sharded = now
	e.log.Warn("Loki shards a stream: its answers prove no longer what is stored, and repeats are stored twice",
		"stream", string(st.labels), "hint", "lower --stream-bytes-per-second, or see that nobody else writes to this stream")
}

func (e *Engine) logOnce(c Class, v *Verdict, r *request, level slog.Level, text string) {
	l, now := &e.logged, e.now()
	l.times++
	if l.class == c && l.status == v.Status && now-l.at < e.cfg.HoldsLogEvery {
		return
	}
	args := []any{"answer", v.String(), "stream", string(r.stream.labels)}
	if l.times > 1 {
		args = append(args, "times", l.times)
	}
	if v.Hint != "" {
		args = append(args, "hint", v.Hint)
	}
	e.log.Log(e.captureCtx, level, text, args...)
	*l = answerLog{class: c, status: v.Status, at: now}
}

// Hold is what keeps a stream from being settled.
type Hold struct {
	Stream  string  `json:"stream"`
	Entries int     `json:"entries"`
	Seconds float64 `json:"seconds"`
	Status  int     `json:"status,omitempty"`
	Answer  string  `json:"answer"`
}

func (e *Engine) holds() []Hold {
	var holds []Hold
	now := e.now()
	for _, st := range e.streams {
		h := Hold{Stream: string(st.labels)}
		for _, b := range st.held {
			h.Entries, h.Status, h.Answer = h.Entries+b.left, b.verdict.Status, "held: "+b.verdict.String()
		}
		switch {
		case st.trouble != nil:
			h.Seconds = (now - st.trouble.since).Seconds()
			h.Status, h.Answer = st.trouble.verdict.Status, st.trouble.verdict.String()
		case st.place == placeOpening:
			h.Answer = "waits for --max-new-streams"
		case len(st.held) == 0:
			continue
		}
		for _, b := range st.queue {
			h.Entries += b.left
		}
		holds = append(holds, h)
	}
	slices.SortFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), strings.Compare(a.Stream, b.Stream))
	})
	return holds
}

// holding says in words what holds, the longest first.
func (e *Engine) holding() string {
	if !e.paused.IsZero() && e.paused.After(time.Now()) {
		return "the daily budget is used up until " + e.paused.Format(time.RFC3339)
	}
	holds := e.holds()
	if len(holds) == 0 {
		return ""
	}
	text := fmt.Sprintf("stream %s: %s", holds[0].Stream, holds[0].Answer)
	if n := len(holds) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more streams", n)
	}
	return text
}

// logHolds says once a minute what holds.
func (e *Engine) logHolds(now time.Duration) {
	if e.waiting == 0 || now < e.cfg.HoldsLogEvery {
		return
	}
	if why := e.holding(); why != "" {
		e.log.Warn("waiting", "entries", e.waiting, "why", why)
	}
}

// logProgress says once a minute what has been done in it.
func (e *Engine) logProgress() {
	delivered, lettered := int64(0), int64(0)
	for _, a := range e.accounts {
		delivered += a.Delivered
		lettered += a.DeadLettered
	}
	if n := delivered + lettered; n > e.progress {
		e.log.Info("progress", "delivered", delivered, "dead_lettered", lettered, "unsettled", e.waiting)
		e.progress = n
	}
}

// Ready tells why the engine is not doing its work: nothing was settled for a
// long time although records wait.
func (e *Engine) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.paused.IsZero() && e.paused.After(time.Now()) {
		return errors.New(e.holding())
	}
	idle := e.now() - max(e.lastSettled, e.firstWaiting)
	if e.waiting == 0 || idle < e.cfg.UnreadyAfter {
		return nil
	}
	why := e.holding()
	if why == "" {
		why = "no answer"
	}
	return fmt.Errorf("nothing settled for %s: %s", idle.Round(time.Second), why)
}

// Status is a look at the engine.
type Status struct {
	Unsettled     int64            `json:"unsettled"`
	BufferedBytes int64            `json:"buffered_bytes"`
	BufferBytes   int64            `json:"buffer_bytes"`
	InFlight      int              `json:"in_flight"`
	Streams       int              `json:"streams"`
	StreamsSeen   int64            `json:"streams_seen"`
	InputEnded    bool             `json:"input_ended"`
	Delivered     int64            `json:"delivered"`
	DeadLettered  int64            `json:"dead_lettered"`
	Dropped       int64            `json:"dropped"`
	Acks          int64            `json:"acks"`
	Stored        int64            `json:"requests_stored"`
	Retried       int64            `json:"requests_retried"`
	BytesPushed   int64            `json:"bytes_pushed"`
	LastStored    time.Time        `json:"last_stored,omitzero"`
	DailyBytes    int64            `json:"daily_bytes,omitempty"`
	PausedUntil   time.Time        `json:"paused_until,omitzero"`
	Holds         []Hold           `json:"holds,omitempty"`
	Letters       map[string]int64 `json:"dead_letters,omitempty"`
	LetterBytes   int64            `json:"-"`
	CaptureErrors int64            `json:"capture_errors"`
}

// Status returns a look at the engine.
func (e *Engine) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{
		Unsettled: e.waiting, BufferedBytes: e.used.Load(), BufferBytes: e.cfg.BufferBytes,
		InFlight: e.inFlight, Streams: len(e.streams), StreamsSeen: e.streamsSeen, InputEnded: e.in.ended,
		Acks: e.ackCount, Stored: e.pushes[0], Retried: e.pushes[1], BytesPushed: e.bytesPushed,
		DailyBytes: e.daily.used(), Holds: e.holds(), LetterBytes: e.letterBytes, CaptureErrors: e.captureErrors,
		Letters: map[string]int64{}, LastStored: e.lastStored.UTC(),
	}
	for r, n := range e.letterCounts {
		s.Letters[string(r)] = n
	}
	for _, a := range e.accounts {
		s.Delivered += a.Delivered
		s.DeadLettered += a.DeadLettered
		s.Dropped += a.DroppedBudget
		for _, n := range a.Discarded {
			s.Dropped += n
		}
	}
	if e.paused.After(time.Now()) {
		s.PausedUntil = e.paused
	}
	return s
}

// logEnd says at the end what an operator can do about entries that were too
// old: the commonest surprise of a first try.
func (e *Engine) logEnd() {
	old, read := int64(0), int64(0)
	for _, a := range e.accounts {
		old += a.Refused[record.TooOld]
		read += a.Read
	}
	if old > 0 {
		e.log.Warn(fmt.Sprintf("%d of %d entries are older than Loki takes: --ts clamp, --backfill-shard, or a larger reject_old_samples_max_age there and --max-age here", old, read),
			"oldest", time.Unix(0, e.oldest).UTC().Format(time.RFC3339), "max_age", e.cfg.Limits.MaxAge)
	}
}
