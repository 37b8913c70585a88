package audit

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
)

// sortLetters finds the letters of each listed file, and counts the others by
// what tells whose they are.
func (a *auditor) sortLetters() {
	for _, l := range a.in.letters {
		if a.in.listed[l.origin] {
			a.ofFile[l.origin] = append(a.ofFile[l.origin], l)
			continue
		}
		if l.reason == record.SourceGap {
			continue // there is no row in it
		}
		of := [3]string{l.source, l.org, l.eventType}
		if l.source == checkpoint.SourcePubsub {
			of[2] = l.origin // its topic, which may be a channel of many event types
		}
		a.origins[l.origin]++
		a.times[of] = append(a.times[of], l.at)
	}
	for _, times := range a.times {
		slices.Sort(times)
	}
}

// entries leaves out the letters that tell of gaps: there is no entry in them.
func entries(letters []*letter) []*letter {
	return slices.DeleteFunc(slices.Clone(letters), func(l *letter) bool { return l.reason == record.SourceGap })
}

// best is the pass over a file of a length, if that is known, that tells of most
// of it, and of several such the one that lost least, the last one of these. One
// that was resumed proves nothing of the rows before, which another pass has
// accounted for; an entry that was dropped is worse than a letter.
func best(passes []pass, length int64) *pass {
	badness := func(p *pass) []int64 {
		other := int64(0)
		if length > 0 && p.Bytes != length {
			other = 1
		}
		_, missing := p.fates()
		return []int64{other, p.ResumedAfter, p.undelivered(), missing + p.Dropped}
	}
	var b *pass
	for i := range passes {
		if p := &passes[i]; b == nil || slices.Compare(badness(p), badness(b)) <= 0 {
			b = p
		}
	}
	return b
}

// file judges one listed file.
func (a *auditor) file(f *file) {
	row := a.row(elfSource, f.EventType)
	row.Files++
	letters := a.ofFile[f.ID]
	p := best(a.in.passes[f.ID], f.Bytes)
	if p == nil {
		a.notPulled(f, letters)
		return
	}
	row.Pulled++
	add(row, p)
	a.unsettled(p, a.hole(f))
	if f.Bytes > 0 && f.Bytes != p.Bytes {
		finding := a.hole(f)
		finding.Kind, finding.Text = Changed, fmt.Sprintf("the file has %d bytes, %d were read", f.Bytes, p.Bytes)
		a.find(finding)
	}
	refused, _ := p.fates()
	if refused == 0 && p.ResumedAfter == 0 {
		return // whatever an earlier pass captured has been delivered since
	}
	captured := entries(letters)
	a.lettersLost(a.hole(f), refused, refused-int64(len(captured)))
	a.captured = append(a.captured, captured...)
}

// hole is a finding about a listed file, which pulling it again mends.
func (a *auditor) hole(f *file) Finding {
	return Finding{Verdict: Hole, Source: elfSource, EventType: f.EventType, File: f.ID, LogDate: stamp(f.LogDate),
		Command: a.cfg.Commands.pull(a.org, f.EventType, f.Interval, f.LogDate, f.LogDate.Add(f.span()))}
}

// unsettled tells, in findings like f, what is without a fate of a pass, and
// what was dropped.
func (a *auditor) unsettled(p *pass, f Finding) {
	if n := p.excess(); n > 0 {
		a.report.Notes = append(a.report.Notes, fmt.Sprintf("%s: %d more entries than rows: something between sf-pull and loki-push repeats rows, or kept back an account, and rows that are missing may not show",
			f.about(), n))
	}
	if _, missing := p.fates(); missing > 0 {
		f.Kind, f.Entries, f.Text = RowsMissing, missing, fmt.Sprintf("%d of the %d rows have no fate", missing, p.Rows)
		a.find(f)
	}
	if p.Dropped > 0 {
		f.Kind, f.Entries, f.Text = Dropped, p.Dropped, fmt.Sprintf("%d entries were refused and captured nowhere", p.Dropped)
		a.find(f)
	}
}

func (a *auditor) notPulled(f *file, letters []*letter) {
	finding := a.hole(f)
	finding.Kind, finding.Text = NotPulled, "the ledger has no account of the file, created "+stamp(f.Created)
	switch {
	case len(letters) > len(entries(letters)):
		finding.Kind, finding.Text = Gap, "the file could not be had, and was given up"
	case a.cfg.Now.Before(f.Created.Add(a.cfg.Wait)):
		finding.Verdict, finding.Kind, finding.Command = Early, StillToCome, ""
		finding.Text = "the file was created at " + stamp(f.Created) + ": its time to be pulled is until " + stamp(f.Created.Add(a.cfg.Wait))
	}
	a.find(finding)
}

// add adds a pass to the account of its type.
func add(row *Row, p *pass) {
	refused, _ := p.fates()
	row.Rows += p.Rows
	row.LeftOut += p.leftOut()
	row.Earlier += p.ResumedAfter
	row.Delivered += p.Delivered
	row.Refused += refused
	row.Dropped += p.Dropped
}

// group is letters that one command replays.
type group struct {
	source, eventType string
	status            spool.Status
	reason            record.Reason
}

// span is the times of some letters' entries, and how many they are.
type span struct{ n, first, last int64 }

// waiting tells of the dead letters that keep entries from Loki.
func (a *auditor) waiting() {
	groups := map[group]*span{}
	for _, l := range a.captured {
		row := a.row(l.source, l.eventType)
		status := l.status
		if status == spool.Pending {
			status = spool.New
		}
		switch status {
		case spool.Replayed:
			row.Replayed++
			continue
		case spool.Discarded:
			row.Discarded++
		case spool.Failed:
			row.Failed++
		default:
			row.Waiting++
		}
		key := group{l.source, l.eventType, status, l.reason}
		s := groups[key]
		if s == nil {
			s = &span{first: l.at}
			groups[key] = s
		}
		s.n++
		s.first, s.last = min(s.first, l.at), max(s.last, l.at)
	}
	for key, s := range groups {
		a.letters(key, s)
	}
}

func (a *auditor) letters(g group, s *span) {
	f := Finding{Verdict: Hole, Kind: LettersWait, Source: g.source, EventType: g.eventType, Entries: s.n,
		Command: a.cfg.Commands.replay(g, s)}
	what := "wait for a replay"
	switch g.status {
	case spool.Failed:
		f.Kind, what = LettersFail, "were refused again"
	case spool.Discarded:
		f.Kind, what = Discarded, "were discarded by somebody"
		if a.cfg.AcceptDiscarded {
			return
		}
	}
	switch g.reason {
	case record.SourceGap:
		f.Kind, what, f.Command = Gap, "tell of something that could not be had", a.cfg.Commands.show(g)
	case record.DecodeError:
		what, f.Command = what+"; they have no line until a filter makes one", a.cfg.Commands.show(g)
	}
	f.Text = fmt.Sprintf("%d dead letters of reason %s %s", s.n, g.reason, what)
	a.find(f)
}

// others judges what is in the ledger and not in the listing: other sources,
// and files that the org does not offer any more.
func (a *auditor) others() {
	for _, origin := range slices.Sorted(maps.Keys(a.in.passes)) {
		if a.in.listed[origin] {
			continue
		}
		passes := a.in.passes[origin]
		if passes[0].source == elfSource {
			passes = []pass{*best(passes, 0)}
		}
		for i := range passes {
			if a.cfg.window().concerns(&passes[i]) {
				a.other(&passes[i])
			}
		}
	}
}

// when is what there is to tell the time of a pass: its events', or its own.
func (p *pass) when() time.Time {
	if t, err := time.Parse(time.RFC3339, p.LogDate); err == nil {
		return t
	}
	if r, ok := reachOf(p.Origin); ok && r.from.Before(r.to) && r.to.Before(p.at) { // an event may be of any time
		return r.to.Add(-time.Millisecond)
	}
	return p.at
}

func (a *auditor) inWindow(t time.Time) bool { return a.cfg.window().has(t) }

func (a *auditor) other(p *pass) {
	since, until := a.cfg.Since, a.cfg.Until
	refused, _ := p.fates()
	lost := max(refused-a.lettersOf(p), 0)
	if r, ok := reachOf(p.Origin); ok {
		if mended, clean := a.mended(p, r); p.lossy() && mended || lost > 0 && clean {
			return // another pass over the same rows counts
		}
		since, until = r.window()
	}
	add(a.row(p.source, p.EventType), p)
	f := Finding{Verdict: Hole, Source: p.source, EventType: p.EventType, File: p.Origin, Command: a.cfg.Commands.pullOther(p, since, until)}
	a.unsettled(p, f)
	a.lettersLost(f, refused, lost)
}

// lettersOf is how many letters there are of the rows of a pass over no listed
// file: those of its origin, or of its span, and those without a time, that are
// of its org or do not say of which.
func (a *auditor) lettersOf(p *pass) int64 {
	r, ok := reachOf(p.Origin)
	if !ok {
		return a.origins[p.Origin]
	}
	name, _, _ := strings.Cut(p.Origin, " ")
	since, until := r.window()
	n := 0
	for _, org := range slices.Compact([]string{"", p.org()}) {
		times := a.times[[3]string{p.source, org, name}]
		before := func(t int64) int {
			n, _ := slices.BinarySearch(times, t)
			return n
		}
		n += before(until.UnixNano()) - before(since.UnixNano()) + before(1) - before(0)
	}
	return int64(n)
}

// lettersLost tells, in a finding like f, of refused entries whose letters
// cannot be looked at, as many as lost.
func (a *auditor) lettersLost(f Finding, refused, lost int64) {
	switch {
	case !a.in.hasSpool && refused > 0:
		f.Kind, f.Entries, f.Text = LettersWait, refused, fmt.Sprintf("%d entries were refused; no spool was given to look for their dead letters", refused)
		a.find(f)
	case a.in.hasSpool && lost > 0:
		f.Kind, f.Entries, f.Text = LettersGone, lost, fmt.Sprintf("%d entries were refused, and their dead letters are in no spool", lost)
		a.find(f)
	}
}

// stray takes in the letters of the window that belong to no listed file.
func (a *auditor) stray() {
	for _, l := range a.in.letters {
		if !a.in.listed[l.origin] && (l.at == 0 || a.inWindow(time.Unix(0, l.at))) {
			a.captured = append(a.captured, l)
		}
	}
}

// losses judges what runs dropped that were cut off before they could account
// for it.
func (a *auditor) losses() {
	for i := range a.in.lost {
		l := &a.in.lost[i]
		key := checkpoint.ParseKey(l.key)
		source, eventType := sourceOf(key), cmp.Or(checkpoint.EventType(key.Object), key.Source)
		if source == checkpoint.SourcePubsub {
			eventType = path.Base(key.Object)
		}
		finding := Finding{Verdict: Hole, Source: source, EventType: eventType}
		if f := a.fileAt(l.Position); f != nil {
			if a.passedSince(f, l) {
				continue
			}
			a.lostOf[f.ID] += l.Dropped
			finding = a.hole(f)
		} else {
			at := l.TS
			if at.IsZero() {
				at = l.at
			}
			if !a.inWindow(at) {
				continue
			}
			day := at.UTC().Truncate(24 * time.Hour)
			p := &pass{source: source, EventType: eventType, key: l.key}
			if mended, _ := a.mended(p, reach{day, at}); mended {
				continue
			}
			finding.LogDate = stamp(day)
			finding.Command = a.cfg.Commands.pullOther(p, day, day.Add(24*time.Hour))
		}
		finding.Kind, finding.Entries = Dropped, l.Dropped
		finding.Text = fmt.Sprintf("%d entries were refused and captured nowhere, by a run that was cut off", l.Dropped)
		a.row(finding.Source, finding.EventType).Dropped += l.Dropped
		a.find(finding)
	}
}

// fileAt is the listed file that a position lies in: its Id is a part of it.
func (a *auditor) fileAt(position string) *file {
	for i := range a.in.files {
		if f := &a.in.files[i]; strings.Contains(position, `"`+f.ID+`"`) {
			return f
		}
	}
	return nil
}

// passedSince tells whether the whole file has been passed without a loss
// since.
func (a *auditor) passedSince(f *file, l *loss) bool {
	return slices.ContainsFunc(a.in.passes[f.ID], func(p pass) bool {
		return p.at.After(l.at) && p.ResumedAfter == 0 && p.Dropped == 0
	})
}

// hourKey is the files of one type and time.
type hourKey struct {
	eventType string
	logDate   time.Time
	span      time.Duration
}

type expected struct {
	files    int
	sum, top int64
	known    bool
	interval string
}

// counts compares what was delivered with what Loki holds.
func (a *auditor) counts() {
	if !a.in.counted {
		return
	}
	held := map[string]map[time.Time]int64{}
	for _, c := range a.in.counts {
		if c.Source != elfSource {
			continue
		}
		if held[c.EventType] == nil {
			held[c.EventType] = map[time.Time]int64{}
		}
		held[c.EventType][c.Hour.UTC()] += c.Entries
	}
	for _, row := range a.rows {
		if row.Source == elfSource {
			n := int64(0)
			for _, entries := range held[row.EventType] {
				n += entries
			}
			row.Loki = &n
		}
	}
	wanted := a.expected()
	keys := slices.SortedFunc(maps.Keys(wanted), func(a, b hourKey) int {
		return strings.Compare(a.eventType+stamp(a.logDate), b.eventType+stamp(b.logDate))
	})
	for _, key := range keys {
		n := int64(0)
		for at := key.logDate; at.Before(key.logDate.Add(key.span)); at = at.Add(time.Hour) {
			n += held[key.eventType][at.Truncate(time.Hour).UTC()]
		}
		a.compare(key, wanted[key], n)
	}
}

// expected is how many entries Loki must hold by the ledger.
func (a *auditor) expected() map[hourKey]*expected {
	wanted := map[hourKey]*expected{}
	for i := range a.in.files {
		f := &a.in.files[i]
		p := best(a.in.passes[f.ID], f.Bytes)
		if p == nil {
			continue
		}
		key := hourKey{f.EventType, f.LogDate.UTC(), f.span()}
		e := wanted[key]
		if e == nil {
			e = &expected{known: true, interval: f.Interval}
			wanted[key] = e
		}
		n := p.Delivered
		if p.ResumedAfter > 0 {
			// What became of the rows before is known only when none was left out.
			e.known = e.known && p.leftOut() == 0
			refused, _ := p.fates()
			earlier := max(int64(len(entries(a.ofFile[f.ID])))-refused, 0)
			n += max(p.ResumedAfter-earlier-a.lostOf[f.ID], 0)
		}
		e.files++
		e.sum += n
		e.top = max(e.top, n)
	}
	return wanted
}

func (a *auditor) compare(key hourKey, e *expected, held int64) {
	counted := a.cfg.Until.Add(time.Hour - 1).Truncate(time.Hour)
	switch {
	case held >= e.sum:
	case !a.cfg.Until.IsZero() && key.logDate.Add(key.span).After(counted):
		a.report.Notes = append(a.report.Notes, fmt.Sprintf("%s of %s: the file reaches beyond the window, so that Loki's counts say nothing of its %d entries",
			key.eventType, stamp(key.logDate), e.sum))
	case !e.known:
		a.report.Notes = append(a.report.Notes, fmt.Sprintf("%s of %s: Loki holds %d entries; how many were delivered is not known to the row, as a run was cut off and a rule leaves rows out",
			key.eventType, stamp(key.logDate), held))
	case e.files > 1 && held >= e.top && !a.cfg.StrictCounts:
		a.report.Notes = append(a.report.Notes, fmt.Sprintf("%s of %s: Loki holds %d entries, %d were delivered from %d files: a late file that repeats rows makes such a difference, as Loki folds repeats",
			key.eventType, stamp(key.logDate), held, e.sum, e.files))
	default:
		a.find(Finding{Verdict: Hole, Kind: LokiFewer, Source: elfSource, EventType: key.eventType, LogDate: stamp(key.logDate), Entries: e.sum - held,
			Text:    fmt.Sprintf("Loki holds %d entries, %d were delivered", held, e.sum),
			Command: a.cfg.Commands.pull(a.org, key.eventType, e.interval, key.logDate, key.logDate.Add(key.span))})
	}
}
