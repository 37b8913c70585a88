package record

import (
	"fmt"
	"math"
)

// parseInteger reads a JSON number that is a whole number of 64 bits,
// whichever way it is written: 1782936000000000000 is 1.782936e+18 too.
func parseInteger(b []byte) (int64, error) {
	digits, negative := b, false
	if len(b) > 0 && b[0] == '-' {
		digits, negative = b[1:], true
	}
	n, ok := plainInteger(digits)
	if !ok {
		n, ok = scientificInteger(digits)
	}
	switch {
	case !ok || n > math.MaxInt64+1 || n == math.MaxInt64+1 && !negative:
		return 0, fmt.Errorf("%.64q is not an integer of 64 bits", b)
	case negative:
		return -int64(n), nil
	}
	return int64(n), nil
}

// plainInteger reads up to 19 digits, which 64 bits always hold.
func plainInteger(b []byte) (n uint64, ok bool) {
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, 0 < len(b) && len(b) <= 19
}

// scientificInteger reads a number with a fraction or an exponent.
func scientificInteger(b []byte) (uint64, bool) {
	var n uint64
	zeros := 0 // those behind the last digit that counts
	scale := 0 // of that digit, as a power of ten
	i, point := 0, -1
	for ; i < len(b) && (isDigit(b[i]) || b[i] == '.' && point < 0); i++ {
		switch {
		case b[i] == '.':
			point = i
		case b[i] == '0':
			zeros++
		default:
			var ok bool
			if n, ok = timesPower(n, zeros+1); !ok {
				return 0, false
			}
			n, zeros = n+uint64(b[i]-'0'), 0
		}
	}
	if i == 0 || point == 0 || point == i-1 {
		return 0, false
	}
	if point > 0 {
		scale = point + 1 - i
	}
	exponent, ok := exponent(b[i:])
	if !ok {
		return 0, false
	}
	if n == 0 {
		return 0, true
	}
	scale += exponent + zeros
	if scale < 0 {
		return 0, false
	}
	return timesPower(n, scale)
}

// timesPower is n times ten to the power of p.
func timesPower(n uint64, p int) (uint64, bool) {
	for ; p > 0 && n > 0; p-- {
		if n > (math.MaxUint64-9)/10 {
			return 0, false
		}
		n *= 10
	}
	return n, true
}

// exponent reads what follows a number's digits. Huge ones are cut, as no
// integer here has more than twenty digits.
func exponent(b []byte) (int, bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != 'e' && b[0] != 'E' || len(b) == 1 {
		return 0, false
	}
	sign := 1
	digits := b[1:]
	switch digits[0] {
	case '-':
		sign, digits = -1, digits[1:]
	case '+':
		digits = digits[1:]
	}
	n := 0
	for _, c := range digits {
		if !isDigit(c) {
			return 0, false
		}
		n = min(n*10+int(c-'0'), math.MaxInt32)
	}
	return sign * n, len(digits) > 0
}
