package replay

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"syscall"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// event is something that the command did.
type event struct {
	ack        *ack
	letter     *letter
	damage     *spool.Damage // in place of a letter
	acksLost   bool          // no way back into the stream: nothing more can be settled
	acksEnd    bool
	lettersEnd bool
	err        error // in place of an ack, or of an end
}

// ack is an acknowledgement, with how much of the dead letters had been written
// when it came.
type ack struct {
	record.Ack
	after int64
}

// letter is a dead letter of the command, as much of it as is needed.
type letter struct {
	end        int64 // bytes of dead letters up to and with this one
	key, value string
	id         spool.ID
	refusal    *record.Letter
	raw        []byte
}

// most is how many events are taken in before their fates are made durable.
const most = 1024

// settler takes in what comes back.
type settler struct {
	*run
	acks         []*ack // not applied yet
	letters      int64  // that count as rejected
	lettersRead  int64  // bytes of them
	rejected     int64  // of the acks applied
	lettersEnded bool
	acksEnded    bool
	acksLost     bool
	overdue      bool  // the command was told to end
	warned       bool  // of something that is no acknowledgement: once is enough
	unsent       int64 // acknowledgements of what was not sent
	err          error // of our own: from here on nothing counts
}

// replay starts the command, sends it the items, and gives them their fates.
func (r *run) replay(ctx context.Context) error {
	c, err := start(r.Command, r.Env, r.Stderr)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events := make(chan event, most)
	pipe, err := newLetterPipe(c.letters)
	if err != nil {
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	go readAcks(c.acks, pipe, events)
	go readLetters(pipe, events)
	sending := make(chan error, 1)
	go func() { sending <- r.send(ctx, c) }()
	ended := make(chan error, 1)
	go func() { ended <- c.wait() }()

	s := &settler{run: r}
	end := s.loop(ctx, stop, c, events, ended)
	stop()
	sendErr := <-sending
	if s.err == nil {
		s.err = sendErr
	}
	if s.err == nil && end == nil {
		s.err = s.settleTotals()
	}
	if s.err != nil {
		r.broken = true
		return s.err
	}
	return end
}

// loop takes events in until the command has ended and its pipes are empty. It
// returns how the command ended.
func (s *settler) loop(ctx context.Context, stop func(), c *child, events <-chan event, ended <-chan error) (end error) {
	var overdue <-chan time.Time // after a stop: TERM, then KILL
	asked := ctx.Done()
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}
	alive := true
	for alive || !s.acksEnded || !s.lettersEnded {
		select {
		case e := <-events:
			s.take(e)
			s.takeMore(events)
			if err := s.apply(); err != nil && s.err == nil {
				s.err = err
			}
			if s.err != nil || s.acksLost {
				stop()
			}
		case end = <-ended:
			alive, ended = false, nil
			deadline := time.Now().Add(s.patience)
			// Both are pipes, which take deadlines.
			_ = c.acks.SetReadDeadline(deadline)
			_ = c.letters.SetReadDeadline(deadline)
		case <-asked:
			asked = nil
			overdue = time.After(s.Grace)
		case <-overdue:
			s.overdue = true
			c.signal(signals[0])
			overdue = nil
			if signals = signals[1:]; len(signals) > 0 {
				overdue = time.After(s.patience)
			}
		}
	}
	if s.overdue && end != nil {
		return sysexits.Errorf(sysexits.TempFail, "the time of --grace is over: %v", end)
	}
	return end
}

func (s *settler) takeMore(events <-chan event) {
	for range most {
		select {
		case e := <-events:
			s.take(e)
		default:
			return
		}
	}
}

func (s *settler) take(e event) {
	switch {
	case e.ack != nil:
		s.acks = append(s.acks, e.ack)
	case e.letter != nil:
		s.lettersRead = e.letter.end
		if s.err == nil {
			s.err = s.takeLetter(e.letter)
		}
	case e.damage != nil && spool.WorthTelling(e.damage.Nth):
		s.Log.Warn("a dead letter of the command cannot be read", "offset", e.damage.Offset, "what", e.damage.Text, "so_far", e.damage.Nth)
	case e.acksLost:
		s.acksLost = true
	case e.acksEnd:
		s.acksEnded = true
	case e.lettersEnd:
		s.lettersEnded = true
	}
	if e.err != nil && s.err == nil && !s.warned {
		s.warned = true
		s.Log.Warn("what the command says is no acknowledgement", "err", e.err)
	}
}

// takeLetter moves the record that came back refused, with its history, to the
// .failed file. The letter was written whole to us, so it is ours to keep; no
// ack is waited for.
func (s *settler) takeLetter(l *letter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	reason := l.refusal.Reason
	if reason != record.TruncatedCopy {
		s.letters++
	}
	i := s.find(l)
	if i < 0 {
		return s.keepStray(l)
	}
	it := &s.items[i]
	if reason != record.TruncatedCopy {
		it.refusals++
	} else {
		var was spool.Letter
		if err := it.Letter(&was); err != nil {
			return err
		}
		if was.Reason() != record.TruncatedCopy {
			return s.keepCopy(it, l)
		}
	}
	switch {
	case it.state == failed:
		return nil // its other half, if the command cut it in two
	case reason == record.Budget: // nobody refused it
		if it.state == sent {
			it.state = unfunded
		}
		return nil
	}
	if err := it.group.claim.Fail(&it.Item, l.refusal); err != nil {
		return err
	}
	acc := s.accountOf(it)
	if it.state == replayed { // so we thought
		s.result.Replayed--
		acc.Replayed--
		acc.Waiting++
	}
	it.state = failed
	s.result.Failed++
	acc.Failed++
	acc.Waiting--
	s.result.FailedFor[string(reason)]++
	s.noteFailedFile(it.group)
	return nil
}

// keepCopy keeps the whole line of an entry that is delivered without its end.
func (s *settler) keepCopy(it *item, l *letter) error {
	if err := it.group.claim.KeepCopy(&it.Item, l.refusal); err != nil {
		return err
	}
	if it.state == replayed { // the acknowledgement was faster
		return it.group.claim.Replayed(&it.Item)
	}
	return nil
}

func (s *settler) noteFailedFile(g *group) {
	if path := g.claim.FailedPath(); !slices.Contains(s.result.FailedFiles, path) {
		s.result.FailedFiles = append(s.result.FailedFiles, path)
	}
}

// find tells which item a letter is: by its number, or by its id when an edit
// took the number away.
func (s *settler) find(l *letter) int {
	if g := s.byKey[l.key]; g != nil {
		if n, err := strconv.Atoi(l.value); err == nil && n >= 1 && n <= len(s.items) && s.items[n-1].group == g && s.items[n-1].state != waiting {
			return n - 1
		}
	}
	for _, g := range s.groups {
		for _, i := range g.sent {
			if s.items[i].ID() == l.id {
				return i
			}
		}
	}
	return -1
}

func (s *settler) keepStray(l *letter) error {
	g := s.groups[0]
	for _, other := range s.groups {
		if len(other.sent) > 0 {
			g = other
			break
		}
	}
	if s.result.Stray++; spool.WorthTelling(s.result.Stray) {
		s.Log.Warn("a dead letter came that is none of the records sent", "reason", l.refusal.Reason, "id", l.id.String(), "so_far", s.result.Stray)
	}
	if err := g.claim.KeepStray(l.raw); err != nil {
		return err
	}
	s.noteFailedFile(g)
	return nil
}

// apply applies the acks whose dead letters have all come, and makes the fates
// durable.
func (s *settler) apply() error {
	if s.err != nil {
		return s.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.acks) > 0 {
		a := s.acks[0]
		if !s.lettersEnded && (s.letters < s.rejected+a.Rejected || s.lettersRead < a.after) {
			break
		}
		s.rejected += a.Rejected
		s.acks = s.acks[1:]
		if err := s.applyAck(&a.Ack); err != nil {
			return err
		}
	}
	return s.commit()
}

// commit makes what was noted durable; only then does it count.
func (r *run) commit() error {
	for _, g := range r.groups {
		if err := g.claim.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// applyAck settles what an ack covers. It tells how many were delivered, not
// which; so unless that accounts for all of them, those that did not come back
// refused are not taken for delivered.
func (s *settler) applyAck(a *record.Ack) error {
	if a.Run != nil {
		return nil
	}
	g := s.byKey[a.Key]
	last, err := strconv.Atoi(a.Value)
	if g == nil || err != nil {
		if s.unsent++; spool.WorthTelling(s.unsent) {
			s.Log.Warn("an acknowledgement for something that was not sent", "key", a.Key, "so_far", s.unsent)
		}
		return nil
	}
	n := 0
	var refused int64
	for n < len(g.sent) && g.sent[n] < last {
		refused += s.items[g.sent[n]].refusals
		n++
	}
	covered := g.sent[:n]
	g.sent = g.sent[n:]
	g.answered += a.Delivered + a.Rejected
	g.dropped += a.Dropped
	certain := a.Dropped == 0 && a.Delivered+a.Rejected >= int64(n)
	if s.lettersEnded && refused < a.Rejected {
		certain = false // captured somewhere else
	}
	for _, i := range covered {
		it := &s.items[i]
		if it.state != sent {
			continue
		}
		if !certain {
			it.state = unsure
			continue
		}
		if err := s.replayed(it); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) replayed(it *item) error {
	if err := it.group.claim.Replayed(&it.Item); err != nil {
		return err
	}
	it.state = replayed
	r.result.Replayed++
	acc := r.accountOf(it)
	acc.Replayed++
	acc.Waiting--
	return nil
}

// settleTotals settles what single acks left open, once all are in: when
// exactly as many were delivered or refused as were sent, the command has only
// changed their order.
func (s *settler) settleTotals() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.items {
		it := &s.items[i]
		g := it.group
		if it.state != sent && it.state != unsure || g.dropped > 0 || g.answered != g.total || s.letters < s.rejected {
			continue
		}
		if err := s.replayed(it); err != nil {
			return err
		}
	}
	return s.commit()
}

// giveBack counts what was not sent or did not come back for certain: it stays
// what it was.
func (r *run) giveBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.items {
		if st := r.items[i].state; st != replayed && st != failed {
			r.giveOneBack(r.items[i].account)
		}
	}
}

func (r *run) giveOneBack(account uint16) {
	r.result.Returned++
	acc := &r.accounts.list[account]
	acc.Returned++
	acc.Waiting--
}

func readAcks(r io.Reader, letters *letterPipe, events chan<- event) {
	acks := record.NewAckReader(r)
	var a record.Ack
	var invalid *record.InvalidError
	for {
		err := acks.Read(&a)
		switch {
		case err == nil:
			events <- event{ack: &ack{a, letters.written()}}
		case invalid != nil && errors.As(err, &invalid): // one has been told of
		case errors.As(err, &invalid):
			events <- event{err: invalid}
		case errors.Is(err, io.EOF):
			events <- event{acksEnd: true}
			return
		default:
			events <- event{acksLost: true, err: sysexits.Wrap(sysexits.DataErr, err)}
			// The command must not hang on a pipe that nobody reads while it ends.
			_, _ = io.Copy(io.Discard, r)
			events <- event{acksEnd: true}
			return
		}
	}
}

func readLetters(r io.Reader, events chan<- event) {
	letters := spool.NewReader(r, "the command's dead letters")
	for {
		var l spool.Letter
		err := letters.Next(&l)
		var damage *spool.Damage
		switch {
		case err == nil:
			key, value := l.Checkpoint()
			end := l.Offset + int64(len(l.Raw)) + 1 // with its line feed
			events <- event{letter: &letter{end: end, key: key, value: value, id: l.ID(), refusal: l.Refusal(), raw: slices.Clone(l.Raw)}}
		case errors.As(err, &damage):
			events <- event{damage: damage}
		default:
			events <- event{lettersEnd: true}
			return
		}
	}
}
