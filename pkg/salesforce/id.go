package salesforce

import (
	"fmt"
	"strings"
)

// ID18 gives the 18-character form of a record id. The last three characters
// tell which of the first fifteen are capitals, so that ids survive programs
// that do not know case.
func ID18(id string) (string, error) {
	if len(id) != 15 && len(id) != 18 {
		return "", fmt.Errorf("id %.80q: want 15 or 18 characters", id)
	}
	for _, c := range []byte(id) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return "", fmt.Errorf("id %.80q: want letters and digits only", id)
		}
	}
	const suffix = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
	long := []byte(id[:15])
	for block := 0; block < 15; block += 5 {
		bits := 0
		for i, c := range []byte(id[block : block+5]) {
			if c >= 'A' && c <= 'Z' {
				bits |= 1 << i
			}
		}
		long = append(long, suffix[bits])
	}
	if len(id) == 18 && !strings.EqualFold(string(long[15:]), id[15:]) {
		return "", fmt.Errorf("id %.80q: the last three characters do not fit the rest", id)
	}
	return string(long), nil
}

// OrgID is ID18 of an organization's id, which begins with 00D.
func OrgID(id string) (string, error) {
	long, err := ID18(id)
	if err != nil {
		return "", fmt.Errorf("org %w", err)
	}
	if !strings.HasPrefix(long, "00D") {
		return "", fmt.Errorf("org id %.80q: want one that begins with 00D", id)
	}
	return long, nil
}

// IsName tells whether name could be that of an object, a field or an event type.
func IsName(name string) bool {
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= 80
}
