package eventlog

import "sf2loki/pkg/record"

// The columns that hold a row's time, the better one first.
const (
	columnDerived = "TIMESTAMP_DERIVED"
	columnStamp   = "TIMESTAMP"
	columnType    = "EVENT_TYPE"
)

// clock tells the time of each row of one file, row after row in the file's
// own order: a row without a time has that of the row before it, so that the
// same file always gives the same times.
type clock struct {
	derived, stamp int // columns, -1 when the file has none
	last           int64
}

func (h *header) clock(fallback int64) clock {
	return clock{derived: h.index(columnDerived), stamp: h.index(columnStamp), last: fallback}
}

// read returns the time of a row, and whether the row itself has one.
func (c *clock) read(row *Row) (int64, bool) {
	t, ok := c.own(row)
	if ok {
		c.last = t
	}
	return c.last, ok
}

func (c *clock) own(row *Row) (int64, bool) {
	if row.Bad != nil {
		return 0, false
	}
	if text := row.Cell(c.derived); len(text) > 0 {
		if t, err := record.ParseTime(text); err == nil {
			return t, true
		}
	}
	return parseStamp(row.Cell(c.stamp))
}

const (
	second = int64(1e9)
	hour   = 3600 * second
)

// parseStamp reads yyyyMMddHHmmss with or without a fraction; `.13` is 130 ms.
func parseStamp(b []byte) (int64, bool) {
	if len(b) < 14 {
		return 0, false
	}
	year, month, day := two(b)*100+two(b[2:]), two(b[4:]), two(b[6:])
	h, m, s := two(b[8:]), two(b[10:]), two(b[12:])
	for _, v := range [...]int{two(b), two(b[2:]), month, day, h, m, s} {
		if v < 0 {
			return 0, false
		}
	}
	if year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || h > 23 || m > 59 || s > 59 {
		return 0, false
	}
	frac, ok := fraction(b[14:])
	if !ok {
		return 0, false
	}
	return daysTo(year, month, day)*24*hour + int64(h)*hour + int64(m)*60*second + int64(s)*second + frac, true
}

// two reads two digits, or gives -100 so that no sum with another is a number.
func two(b []byte) int {
	if b[0]-'0' > 9 || b[1]-'0' > 9 {
		return -100
	}
	return int(b[0]-'0')*10 + int(b[1]-'0')
}

// fraction reads nothing, or a point with up to nine digits.
func fraction(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != '.' || len(b) > 10 {
		return 0, false
	}
	ns, unit := int64(0), second
	for _, c := range b[1:] {
		if c-'0' > 9 {
			return 0, false
		}
		unit /= 10
		ns += int64(c-'0') * unit
	}
	return ns, true
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysTo counts the days from the epoch to a date, with years that begin in
// March so that the leap day is the last.
func daysTo(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400
	yoe := year % 400
	doy := (153*(month-3)+2)/5 + day - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return int64(era)*146097 + int64(doe) - 719468
}
