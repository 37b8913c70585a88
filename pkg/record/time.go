package record

import (
	"fmt"
	"math"
	"time"
)

// AppendTime appends ns, nanoseconds since the epoch, in the one form that
// records use: 2026-07-01T20:00:00.000000000Z. Such times sort as text.
func AppendTime(dst []byte, ns int64) []byte {
	sec, frac := ns/1e9, ns%1e9
	if frac < 0 {
		sec, frac = sec-1, frac+1e9
	}
	days, rest := sec/86400, sec%86400
	if rest < 0 {
		days, rest = days-1, rest+86400
	}
	year, month, day := civil(days)
	n := len(dst)
	dst = append(dst, "0000-00-00T00:00:00.000000000Z"...)
	b := dst[n:]
	put2(b[0:], year/100)
	put2(b[2:], year%100)
	put2(b[5:], month)
	put2(b[8:], day)
	put2(b[11:], int(rest/3600))
	put2(b[14:], int(rest/60%60))
	put2(b[17:], int(rest%60))
	for i := 28; frac > 0; i-- {
		b[i] = byte('0' + frac%10)
		frac /= 10
	}
	return dst
}

func put2(b []byte, v int) {
	b[0], b[1] = byte('0'+v/10), byte('0'+v%10)
}

// ParseTime parses an RFC 3339 time, with any offset and up to nine digits of
// fraction, into nanoseconds since the epoch.
func ParseTime(b []byte) (int64, error) {
	if ns, ok := parseZulu(b); ok {
		return ns, nil
	}
	// The time package takes fractions of any length, commas in them and hours
	// of one digit.
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil || !strict(b) {
		return 0, fmt.Errorf("%.64q is no RFC 3339 time", b)
	}
	if t.Before(time.Unix(0, math.MinInt64)) || t.After(time.Unix(0, math.MaxInt64)) {
		return 0, fmt.Errorf("%.64q is outside the years 1678 to 2261", b)
	}
	return t.UnixNano(), nil
}

// Countable tells whether nanoseconds since the epoch have a number for t, and for
// what is some decades before and after it. UnixNano makes another time of one that
// is not.
func Countable(t time.Time) bool { return t.Year() >= 1700 && t.Year() <= 2200 }

// strict checks what the time package is lenient in.
func strict(b []byte) bool {
	if len(b) < len("2006-01-02T15:04:05Z") || b[13] != ':' {
		return false
	}
	fraction := 0
	switch b[19] {
	case ',':
		return false
	case '.':
		for 20+fraction < len(b) && isDigit(b[20+fraction]) {
			fraction++
		}
	}
	if zone := b[len(b)-6:]; b[len(b)-1] != 'Z' && (num2(zone[1:]) > 23 || num2(zone[4:]) > 59) {
		return false
	}
	return fraction <= 9
}

// parseZulu parses the common form, in UTC and within the years that
// nanoseconds can count without care for overflow.
func parseZulu(b []byte) (int64, bool) {
	n := len(b)
	if n < 20 || n > 30 || b[n-1] != 'Z' || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	century, year, month, day := num2(b), num2(b[2:]), num2(b[5:]), num2(b[8:])
	hour, minute, second := num2(b[11:]), num2(b[14:]), num2(b[17:])
	year += century * 100
	if century < 0 || year < 1678 || year > 2261 || month < 1 || month > 12 || day < 1 ||
		uint(hour) > 23 || uint(minute) > 59 || uint(second) > 59 {
		return 0, false
	}
	days := daysSinceEpoch(year, month, day)
	if day > 28 {
		if _, m, _ := civil(days); m != month {
			return 0, false
		}
	}
	frac := int64(0)
	if n > 20 {
		if b[19] != '.' || n == 21 {
			return 0, false
		}
		for _, c := range b[20 : n-1] {
			if !isDigit(c) {
				return 0, false
			}
			frac = frac*10 + int64(c-'0')
		}
		frac *= powers[30-n]
	}
	return (days*86400+int64(hour*3600+minute*60+second))*1e9 + frac, true
}

var powers = [...]int64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// num2 reads two digits; what is none yields a number below zero.
func num2(b []byte) int {
	if !isDigit(b[0]) || !isDigit(b[1]) {
		return -1 << 20
	}
	return int(b[0]-'0')*10 + int(b[1]-'0')
}

// daysSinceEpoch counts in years that begin in March, so that the leap day is
// a year's last; 400 of them have 146097 days. The year 0 of this count lies
// 719468 days before the epoch.
func daysSinceEpoch(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era, y := year/400, year%400
	return int64(era*146097 + y*365 + y/4 - y/100 + (153*(month-3)+2)/5 + day - 1 - 719468)
}

// civil is the inverse of daysSinceEpoch.
func civil(days int64) (year, month, day int) {
	d := int(days) + 719468
	era, doe := d/146097, d%146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	m := (5*doy + 2) / 153
	year, month, day = era*400+yoe, m+3, doy-(153*m+2)/5+1
	if month > 12 {
		return year + 1, month - 12, day
	}
	return year, month, day
}
