package loki

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/fdio"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// Pusher sends one request of one stream and tells what came back: a Client.
type Pusher interface {
	Push(ctx context.Context, push []byte) Answer
}

// Capture takes dead letters, each one a whole line. When it returns true they
// are durable. False without an error means that there is no destination.
type Capture func(ctx context.Context, letters [][]byte) (bool, error)

// TimePolicy says which time an entry is pushed with.
type TimePolicy int

// The policies. All but TimeKeep put the event's own time into the metadata
// event_time.
const (
	TimeKeep  TimePolicy = iota // the record's
	TimeNow                     // the present, for all entries
	TimeClamp                   // the present, for those older than Limits.MaxAge
)

// EngineConfig is everything that decides how records are pushed. The zero
// value of a size, count or duration is the default that is named, unless 0 is
// said to mean something.
type EngineConfig struct {
	Push    Pusher
	Capture Capture // nil: no destination, refused entries are dropped and counted
	Limits  Limits

	Labels      []record.Pair // added to every stream, never overriding
	AllowLabels []string      // nil: all labels stay labels
	HourLabel   string        // "": none
	Window      time.Duration // how far Loki lets an entry lie behind its stream's newest: 1 h; less than 0: any distance
	MaxLine     int           // bytes; 0: lines are not cut
	Times       TimePolicy

	BatchEntries  int           // 1000
	BatchBytes    int           // 1 MiB, encoded
	FlushInterval time.Duration // 1 s
	InFlight      int           // 4
	BufferBytes   int64         // 24 MiB
	// StreamRate is the most bytes per second of one stream, and lifts the limit
	// of requests (RequestBytes, 256 KiB) with it when it is 0.
	StreamRate   int64
	RequestBytes int
	NewStreams   int // streams opened per hour; 0: no limit

	GiveUp time.Duration // without a success; 0: never
	Grace  time.Duration // for what is left when the context has ended: 25 s

	Breaker       bool
	Strict        bool // a rejected entry makes the status 65
	AllowEmpty    bool
	ForceTenant   bool
	DryRun        bool
	CaptureOrStop bool // a failed capture ends the run; otherwise it is counted
	CaptureBudget bool // entries given up for the daily budget are captured
	CaptureFull   bool // lines that were cut are captured whole
	Egress        EgressConfig
	Tenant        string
	Org, Instance string
	RunID         string          // of the run lines when the input has none
	Gone          <-chan struct{} // closed when nobody reads the acknowledgements
	Log           *slog.Logger
	// OnBegin is told the run id of the pipe and returns the line that begins
	// this program's own run among the acknowledgements.
	OnBegin        func(runID string) []byte
	HoldsLogEvery  time.Duration // 1 min
	UnreadyAfter   time.Duration // 15 min
	MisconfigAfter time.Duration // 1 min
}

func (c *EngineConfig) setDefaults() {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	dur := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.BatchEntries, 1000)
	def(&c.BatchBytes, 1<<20)
	def(&c.RequestBytes, 256<<10)
	def(&c.InFlight, 4)
	if c.BufferBytes == 0 {
		c.BufferBytes = 24 << 20
	}
	dur(&c.Window, time.Hour)
	dur(&c.FlushInterval, time.Second)
	dur(&c.Grace, 25*time.Second)
	dur(&c.HoldsLogEvery, time.Minute)
	dur(&c.UnreadyAfter, 15*time.Minute)
	dur(&c.MisconfigAfter, time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Engine turns records into pushed requests, dead letters and
// acknowledgements. One mutex guards all of its state; it is held for
// microseconds and never while anything is read, sent, captured or written.
// Four kinds of goroutines meet there: the one that reads the input, the one
// in Run that decides what happens next, one for each request in flight, and
// one each that captures dead letters and writes acknowledgements.
//
// Times in the state are durations since the engine's start.
type Engine struct {
	cfg   EngineConfig
	log   *slog.Logger
	start time.Time

	wake    chan struct{} // something has changed
	space   chan struct{} // the reader may go on
	stopped chan struct{}
	used    atomic.Int64 // bytes that are read and unsettled
	ahead   atomic.Bool  // enough is read, see readsAhead
	runID   atomic.Pointer[string]
	daily   *daily
	acks    io.Writer

	pushCtx    context.Context
	stopPushes context.CancelFunc
	captureCtx context.Context

	mu sync.Mutex

	// The input.
	in        input
	begun     bool
	labels    labelCache
	wallNow   int64
	cutLine   []byte
	names     knownNames
	metadata  []record.Pair
	eventTime []byte
	accounts  map[string]*SourceAccount
	oldest    int64 // time of the oldest entry refused for its age
	waiting   int64 // entries that are not settled

	// Batches and their memory.
	streams     map[string]*stream
	streamsSeen int64
	fed         *stream // whose batch was closed last
	labelTexts  crowd   // of the streams
	openList    openList
	fullest     fullest
	local       *batch // entries that need no push
	localOpened time.Duration
	memory      int64
	blocks      blocks
	spareBatch  []*batch

	// The schedule.
	ready    []*stream
	waitHeap waitHeap
	opening  []*stream
	spare    []*request
	inFlight int
	timer    time.Duration // when Run looks again by itself
	stepping bool
	swept    time.Duration

	// What holds everything up.
	gate         time.Duration // nothing is sent before
	rates        rates
	newStreams   hourly
	paused       time.Time // until when the daily budget lets nothing pass
	budgetLogged time.Duration
	learnedLimit int

	// The server's health.
	storedAny          bool
	successes          uint64
	failures           int // bad answers about everything in a row
	failingSince       time.Duration
	misconfiguredSince time.Duration
	misconfigured      int // answers since then; one alone ends nothing
	lastSuccess        time.Duration
	lastTrouble        Verdict
	outageBackoff      *backoff.Backoff
	facts              []EntryFacts
	suspects           []Suspect
	suspended          []*stream // with entries that are held for doubt
	breaker            *breaker  // for what Loki refuses
	breakerHere        *breaker  // for what is refused here

	// Settlement.
	tracker      *tracker
	captureQueue []*batch
	capturing    bool
	lastSettled  time.Duration
	firstWaiting time.Duration // when entries began to wait
	acksDue      time.Duration // when acknowledgements are to be written; 0: none
	lines        []byte
	linesSpare   []byte
	writing      bool
	writeError   error

	// The end.
	stopping  bool
	failed    error
	graceEnd  time.Duration // 0: nobody asked to stop
	graceOver bool
	giveUpAt  time.Duration // when even the last acknowledgements are not waited for; 0: not decided

	counters
}

// NewEngine checks what can be checked before anything is read.
func NewEngine(cfg EngineConfig) (*Engine, error) {
	cfg.setDefaults()
	if cfg.Push == nil && !cfg.DryRun {
		return nil, sysexits.Wrap(sysexits.Software, errors.New("engine without a pusher"))
	}
	if cfg.DryRun {
		cfg.Egress.DailyBytes = 0 // nothing is sent
	}
	daily, err := newDaily(cfg.Egress, cfg.Log)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, log: cfg.Log, start: time.Now(), daily: daily,
		wake: make(chan struct{}, 1), space: make(chan struct{}, 1), stopped: make(chan struct{}),
		labels: newLabelCache(), accounts: map[string]*SourceAccount{}, streams: map[string]*stream{},
		rates: newRates(cfg.Egress), newStreams: newHourly(cfg.NewStreams),
		failingSince: never, misconfiguredSince: never, lastSuccess: never,
		outageBackoff: backoff.New(minBackoff, maxBackoff), breaker: newBreaker(), breakerHere: newBreaker(), tracker: newTracker(),
	}
	e.letterCounts = map[record.Reason]int64{}
	e.wall()
	return e, nil
}

// now is the time since the engine's start.
func (e *Engine) now() time.Duration { return time.Since(e.start) }

// kick has Run look at the state again.
func (e *Engine) kick() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// kickBy has Run look at the state again at a time, at the latest.
func (e *Engine) kickBy(at time.Duration) {
	if at >= e.timer {
		return
	}
	e.timer = at
	if !e.stepping { // else Run is about to wait for it anyway
		e.kick()
	}
}

// full tells whether as much is read and unsettled as may be.
func (e *Engine) full() bool { return e.used.Load() >= e.cfg.BufferBytes }

func (e *Engine) updateUsed() {
	e.used.Store(e.memory + int64(e.tracker.bytes()))
	if e.full() {
		e.kick()
	}
	e.letRead()
}

// letRead lets the reader go on, or not.
func (e *Engine) letRead() {
	e.ahead.Store(e.readsAhead())
	if e.full() || e.ahead.Load() {
		return
	}
	select {
	case e.space <- struct{}{}:
	default:
	}
}

// readsAhead tells whether enough waits of one stream that is sent as fast as
// the server takes it. To read on would fill memory that is not in the
// processor's cache, and have more sent twice after a crash. A server that takes
// its time, or a stream that waits for something, holds up no other stream: what
// follows may be for those, and they are sent at the same time.
func (e *Engine) readsAhead() bool {
	st := e.fed
	if st == nil || len(st.queue) < enoughBatches {
		return false
	}
	now := e.now()
	switch st.place {
	case placeBusy:
		until := st.sent + promptAnswer
		if now < until {
			e.kickBy(until)
		}
		return now < until
	case placeReady, placeNone: // on its way to be sent
		return e.inFlight < e.maxInFlight() && e.gateOpen(now)
	}
	return false
}

const (
	enoughBatches = 3 // one in flight and two that wait
	promptAnswer  = 10 * time.Millisecond
)

func (e *Engine) newBatch(st *stream) *batch {
	if n := len(e.spareBatch); n > 0 {
		b := e.spareBatch[n-1]
		e.spareBatch = e.spareBatch[:n-1]
		b.stream = st
		return b
	}
	return &batch{stream: st}
}

// recycle keeps a settled batch's slices for the next one.
func (e *Engine) recycle(b *batch) {
	clear(b.entries)
	clear(b.faults)
	if len(e.spareBatch) < 2*e.cfg.InFlight && cap(b.entries) <= 2*e.cfg.BatchEntries {
		e.spareBatch = append(e.spareBatch, &batch{
			mem: b.mem, entries: b.entries[:0], faults: b.faults[:0], groups: b.groups[:0],
		})
	}
}

// Run pushes the records of in and writes acknowledgements to acks, until the
// input has ended and all is settled. When ctx ends first it goes on for the
// time of grace. The error carries the exit status. A goroutine that is
// blocked in reading in is left behind.
func (e *Engine) Run(ctx context.Context, in io.Reader, acks io.Writer) error {
	e.acks = acks
	e.pushCtx, e.stopPushes = context.WithCancel(context.WithoutCancel(ctx))
	e.captureCtx = context.WithoutCancel(ctx)
	defer e.stopPushes()
	defer close(e.stopped)
	go e.read(in)

	timer := time.NewTimer(0)
	defer timer.Stop()
	asked, gone := ctx.Done(), e.cfg.Gone
	for {
		wait, done := e.step()
		if done {
			break
		}
		timer.Reset(wait)
		select {
		case <-e.wake:
		case <-timer.C:
		case <-asked:
			asked = nil
			e.drain()
		case <-gone:
			gone = nil
			e.mu.Lock()
			e.writeError = fdio.ErrReaderGone
			e.fail(sysexits.Wrap(sysexits.IOErr, fdio.ErrReaderGone))
			e.mu.Unlock()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true // whoever still reads begins nothing any more
	e.logEnd()
	return e.result()
}

// drain begins the time of grace.
func (e *Engine) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.graceEnd = e.now() + e.cfg.Grace
}

// fail ends the run: nothing more is sent or captured, what has become durable
// is still acknowledged.
func (e *Engine) fail(err error) {
	if e.failed == nil {
		e.failed = err
	}
	e.stop()
	e.giveUpAt = e.now() + lastWrite
}

func (e *Engine) stop() {
	if e.stopping {
		return
	}
	e.stopping = true
	if e.stopPushes != nil {
		e.stopPushes()
	}
	e.kick()
}

// lastWrite is how long the end waits for what takes no time as a rule: a
// request that was cancelled, a capture under way, and a reader of the
// acknowledgements that does not read.
const lastWrite = 5 * time.Second

// step does everything that is due, and tells how long to wait for the next
// thing, or that the run is over.
func (e *Engine) step() (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.timer = now + time.Minute
	e.stepping = true
	defer func() { e.stepping = false }()
	e.wall()
	if !e.stopping {
		e.flushDue(now)
		e.dispatch(now)
		e.relieve()
		e.dispatch(now)
		e.checkPatience(now)
		e.checkGrace(now)
		e.setTimer()
	}
	if now-e.swept >= time.Minute {
		e.swept = now
		e.sweep(now)
		e.logHolds(now)
		e.logProgress()
	}
	done := e.over(now)
	e.writeAcks(now, false)
	if e.acksDue > now {
		e.kickBy(e.acksDue)
	}
	e.letRead()
	return max(0, e.timer-now), done
}

// setTimer has Run wake up for the first thing that is due by time alone.
func (e *Engine) setTimer() {
	if len(e.waitHeap) > 0 {
		e.kickBy(e.waitHeap[0].at)
	}
	if e.openList.first != nil {
		e.kickBy(e.openList.first.opened + e.flushInterval())
	}
	if e.local != nil {
		e.kickBy(e.localOpened + e.flushInterval())
	}
}

func (e *Engine) checkGrace(now time.Duration) {
	switch {
	case e.graceEnd == 0:
	case now >= e.graceEnd:
		e.graceOver = true
		e.stop()
		e.giveUpAt = now + lastWrite
	default:
		e.kickBy(e.graceEnd)
	}
}

// over tells whether nothing is left to do, or to wait for.
func (e *Engine) over(now time.Duration) bool {
	if e.stopping {
		if e.tooLate(now) {
			return true
		}
		if e.inFlight > 0 || e.capturing {
			return false
		}
		e.begin(nil)
		e.writeAcks(now, true)
		return !e.writing
	}
	if !e.in.ended || e.inFlight > 0 || e.capturing {
		return false
	}
	if e.waiting > 0 && (!e.onlyHeld() || !e.storedAny && e.misconfiguredSince != never) {
		return false // in the second case checkPatience has the last word
	}
	e.stop()
	return false
}

// tooLate tells whether even the last acknowledgements are not waited for any
// longer. At a regular end they are, however slow their reader, until it goes
// away or a signal sets the time of grace.
func (e *Engine) tooLate(now time.Duration) bool {
	at := e.giveUpAt
	if at == 0 {
		at = e.graceEnd
	}
	switch {
	case at == 0:
		return false
	case now < at:
		e.kickBy(at)
		return false
	}
	e.graceOver = e.graceOver || e.giveUpAt == 0
	return true
}

// onlyHeld tells whether all that is left are entries that are held, and each
// has been tried again since the input ended.
func (e *Engine) onlyHeld() bool {
	held := int64(0)
	for _, st := range e.streams {
		for _, b := range st.held {
			if !b.tried {
				return false
			}
			held++
		}
	}
	return held == e.waiting
}
