package record

// skip checks the value that begins at p and goes behind it. It keeps the
// open brackets in a slice, so that no input can exhaust the stack.
func (s *scanner) skip(p int) (int, error) {
	s.stack = s.stack[:0]
	for {
		var err error
		switch c := s.win[p]; c {
		case '{', '[':
			if len(s.stack)+2 > MaxDepth { // with this one and the object itself
				return p, s.syntax(p, "nests too deeply")
			}
			if p, err = s.space(p + 1); err != nil {
				return p, err
			}
			if s.win[p] == c+2 { // } and ] follow two behind { and [
				p++
				break
			}
			s.stack = append(s.stack, c)
			if c == '{' {
				if p, err = s.skipName(p); err != nil {
					return p, err
				}
			}
			continue
		default:
			if p, err = s.scalar(p); err != nil {
				return p, err
			}
		}
		if p, err = s.leave(p); err != nil || len(s.stack) == 0 {
			return p, err
		}
	}
}

// leave goes on behind a value: to the next one, or behind the bracket that
// closes the outermost.
func (s *scanner) leave(p int) (int, error) {
	var err error
	for len(s.stack) > 0 {
		if p, err = s.space(p); err != nil {
			return p, err
		}
		top := s.stack[len(s.stack)-1]
		switch s.win[p] {
		case ',':
			if p, err = s.space(p + 1); err != nil || top == '[' {
				return p, err
			}
			return s.skipName(p)
		case top + 2:
			s.stack = s.stack[:len(s.stack)-1]
			p++
		default:
			return p, s.syntax(p, "after a value")
		}
	}
	return p, nil
}

func (s *scanner) skipName(p int) (int, error) {
	if s.win[p] != '"' {
		return p, s.syntax(p, "where a name in quotes should begin")
	}
	p, err := s.skipString(p + 1)
	if err != nil {
		return p, err
	}
	return s.colon(p)
}

// scalar goes behind a value that holds no others.
func (s *scanner) scalar(p int) (int, error) {
	switch c := s.win[p]; {
	case c == '"':
		return s.skipString(p + 1)
	case c == '-' || '0' <= c && c <= '9':
		return s.number(p)
	case c == 't':
		return s.literal(p, "true")
	case c == 'f':
		return s.literal(p, "false")
	case c == 'n':
		return s.literal(p, "null")
	}
	return p, s.syntax(p, "where a value should begin")
}

func (s *scanner) literal(p int, word string) (int, error) {
	for i := range len(word) {
		if s.win[p+i] != word[i] {
			return p, s.syntax(p+i, "inside the word "+word)
		}
	}
	return p + len(word), nil
}

// number goes behind a number.
func (s *scanner) number(p int) (int, error) {
	if s.win[p] == '-' {
		p++
	}
	switch c := s.win[p]; {
	case c == '0':
		p++
	case '1' <= c && c <= '9':
		p = s.digits(p)
	default:
		return p, s.syntax(p, "inside a number")
	}
	if s.win[p] == '.' {
		q := s.digits(p + 1)
		if q == p+1 {
			return q, s.syntax(q, "inside a number")
		}
		p = q
	}
	if c := s.win[p]; c == 'e' || c == 'E' {
		p++
		if c := s.win[p]; c == '+' || c == '-' {
			p++
		}
		q := s.digits(p)
		if q == p {
			return q, s.syntax(q, "inside a number")
		}
		p = q
	}
	return p, nil
}

func (s *scanner) digits(p int) int {
	for '0' <= s.win[p] && s.win[p] <= '9' {
		p++
	}
	return p
}
