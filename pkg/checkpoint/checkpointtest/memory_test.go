package checkpointtest_test

import (
	"testing"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
)

func TestMemory(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) func() checkpoint.Store {
		m := new(checkpointtest.Memory)
		return func() checkpoint.Store { return m }
	})
}
