package loki

import "time"

// rates are the caps on what the whole process sends: lines and bytes of lines
// per second, in bursts of at most one second's worth. A request may overdraw
// them; the next one then waits for longer.
type rates struct {
	lines, bytes       int64 // per second; 0: no cap
	lineDebt, byteDebt time.Duration
	next               time.Duration // when the next request may start
}

func newRates(cfg EgressConfig) rates {
	return rates{lines: cfg.LinesPerSecond, bytes: cfg.BytesPerSecond, lineDebt: -time.Second, byteDebt: -time.Second}
}

func (r *rates) spend(now time.Duration, lines, bytes int64) {
	if r.lines > 0 {
		r.lineDebt = max(r.lineDebt, now-time.Second) + perSecond(lines, r.lines)
		r.next = max(r.next, r.lineDebt)
	}
	if r.bytes > 0 {
		r.byteDebt = max(r.byteDebt, now-time.Second) + perSecond(bytes, r.bytes)
		r.next = max(r.next, r.byteDebt)
	}
}

// hourly is a budget of so many an hour: all of it at once at first, then as
// it fills again.
type hourly struct {
	perHour int // 0: no limit
	left    float64
	last    time.Duration
	at      time.Duration // when there is one again; after a take that failed
}

func newHourly(n int) hourly { return hourly{perHour: n, left: float64(n)} }

func (h *hourly) take(now time.Duration) bool {
	if h.perHour == 0 {
		return true
	}
	rate := float64(h.perHour) / float64(time.Hour)
	h.left = min(float64(h.perHour), h.left+float64(now-h.last)*rate)
	h.last = now
	if h.left >= 1-1e-9 {
		h.left--
		return true
	}
	h.at = now + time.Duration((1-h.left)/rate) + time.Microsecond
	return false
}
