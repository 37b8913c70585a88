package loki

// crowd tells when so much is remembered that what can be forgotten should be
// looked for. That is when there is more than usual, and twice as much as the
// last look has left: so looking costs next to nothing for each that comes.
type crowd struct {
	bytes           int // of all that is remembered
	next, nextBytes int // when to look again
}

// Without a question so many are remembered: more streams than a tenant may
// have, as a rule, and far more keys than a pipe has; and so many bytes of them.
const (
	many      = 10000
	manyBytes = 8 << 20
)

// large tells whether to look through n of them.
func (c *crowd) large(n int) bool {
	return n >= max(many, c.next) || c.bytes >= max(manyBytes, c.nextBytes)
}

// looked says that n are left.
func (c *crowd) looked(n int) { c.next, c.nextBytes = 2*n, 2*c.bytes }
