package cli

import (
	"fmt"
	"strings"
)

// Printable shows text of others so that nothing in it can play tricks on a
// terminal or break a table: quoted, when there is such a thing in it.
func Printable(s string) string {
	if strings.ContainsFunc(s, playsTricks) {
		return fmt.Sprintf("%+q", s)
	}
	return s
}

func playsTricks(r rune) bool {
	return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x2028 && r <= 0x202e
}
