package tasktest

import (
	"slices"
	"testing"
)

// task is a section of sf2loki-tasks(7): its title, the tasks of the review of
// an operator's life that it answers, and what shows that it works.
type task struct {
	title   string
	numbers []int
	do      func(b *bench, blocks []string)
}

var tasks = slices.Concat(firstTasks, runTasks, historyTasks, storeTasks, letterTasks, watchTasks)

// reviewed is how many tasks the review has.
const reviewed = 36

func TestTasks(t *testing.T) {
	left := sections(t, "sf2loki-tasks.7")
	answered := map[int]bool{}
	for _, tt := range tasks {
		blocks, ok := left[tt.title]
		if !ok {
			t.Errorf("no section %q", tt.title)
			continue
		}
		delete(left, tt.title)
		for _, n := range tt.numbers {
			answered[n] = true
		}
		t.Run(tt.title, func(t *testing.T) { tt.do(newBench(t), blocks) })
	}
	for title := range left {
		t.Errorf("nobody tries %q", title)
	}
	for n := 1; n <= reviewed; n++ {
		if !answered[n] {
			t.Errorf("no section is about T%d", n)
		}
	}
}
