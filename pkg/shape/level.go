package shape

import "bytes"

// The levels that a row can have.
var (
	levelInfo  = []byte("info")
	levelWarn  = []byte("warn")
	levelError = []byte("error")
)

// Columns whose presence is an error, whatever else the row says.
var errorColumns = [...]string{"EXCEPTION_MESSAGE", "EXCEPTION_TYPE", "ERROR_MESSAGE", "ERROR_CODE"}

// levelColumns are the columns that tell how a row ended, -1 where the header
// has none. SESSION_LEVEL, LOGIN_TYPE and USER_TYPE say nothing about it.
type levelColumns struct {
	errors        []int
	statusCode    int
	requestStatus int
	loginStatus   int
	others        [2]int // OPERATION_STATUS, Status
}

func newLevelColumns(at map[string]int) levelColumns {
	find := func(name string) int {
		if i, ok := at[name]; ok {
			return i
		}
		return -1
	}
	l := levelColumns{
		statusCode:    find("STATUS_CODE"),
		requestStatus: find("REQUEST_STATUS"),
		loginStatus:   find("LOGIN_STATUS"),
		others:        [2]int{find("OPERATION_STATUS"), find("Status")},
	}
	for _, name := range errorColumns {
		if i := find(name); i >= 0 {
			l.errors = append(l.errors, i)
		}
	}
	return l
}

// of derives the level of a row; the first rule that has something to go by wins.
func (l *levelColumns) of(row Cells) []byte {
	for _, i := range l.errors {
		if says(row.Cell(i)) {
			return levelError
		}
	}
	if l.statusCode >= 0 {
		if level := ofStatusCode(row.Cell(l.statusCode)); level != nil {
			return level
		}
	}
	if l.requestStatus >= 0 {
		if text := row.Cell(l.requestStatus); says(text) {
			return ofSuccess(text)
		}
	}
	if l.loginStatus >= 0 {
		if text := row.Cell(l.loginStatus); says(text) {
			if bytes.EqualFold(bytes.TrimSpace(text), []byte("LOGIN_NO_ERROR")) {
				return levelInfo
			}
			return levelWarn
		}
	}
	for _, i := range l.others {
		if i < 0 {
			continue
		}
		if text := row.Cell(i); says(text) {
			return ofSuccess(text)
		}
	}
	return levelInfo
}

// ofStatusCode is nil when text is no HTTP status.
func ofStatusCode(text []byte) []byte {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || len(text) > 9 {
		return nil
	}
	code := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return nil
		}
		code = code*10 + int(c-'0')
	}
	switch {
	case code >= 500:
		return levelError
	case code >= 400:
		return levelWarn
	case code >= 100:
		return levelInfo
	}
	return nil
}

// says reports whether text means something: not nothing under another name.
func says(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && !isOneOf(text, "0", "none", "null", "na", "n/a")
}

func ofSuccess(text []byte) []byte {
	if isOneOf(bytes.TrimSpace(text), "s", "success", "successful", "ok", "complete", "completed", "true") {
		return levelInfo
	}
	return levelWarn
}

func isOneOf(text []byte, words ...string) bool {
	for _, w := range words {
		if len(w) == len(text) && bytes.EqualFold(text, []byte(w)) {
			return true
		}
	}
	return false
}
