package screen

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/exp/teatest/v2"

	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/inspect/top/toptest"
)

// started is a program on a terminal with environment variables.
func started(t *testing.T, env ...string) *teatest.TestModel {
	s := &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1), toptest.Three(2)}}
	m := newScreen(t, s).model
	m.setStyle(newStyle(true))
	m.interval = top.MinInterval
	return teatest.NewTestModel(t, m, teatest.WithInitialTermSize(100, 20),
		teatest.WithProgramOptions(tea.WithEnvironment(append(env, "TERM=xterm-256color", "TTY_FORCE=1"))))
}

// see waits until a text is written.
func see(t *testing.T, tm *teatest.TestModel, what func([]byte) bool) {
	t.Helper()
	teatest.WaitFor(t, tm.Output(), what, teatest.WithDuration(10*time.Second))
}

func has(text string) func([]byte) bool {
	return func(b []byte) bool { return bytes.Contains(b, []byte(text)) }
}

func TestProgramRuns(t *testing.T) {
	tm := started(t)
	see(t, tm, has("54.0"))
	tm.Type("/slow")
	tm.Send(keyOf("enter"))
	see(t, tm, has("1 found"))
	tm.Send(keyOf("enter"))
	see(t, tm, has("*:30080/tcp"))
	tm.Type("q")
	tm.WaitFinished(t, teatest.WithFinalTimeout(10*time.Second))
}

// colours matches sequences that set a colour.
var colours = regexp.MustCompile(`\x1b\[([0-9;]*;)?(38|48|3[0-7]|9[0-7])[;m]`)

func TestNoColorIsRespected(t *testing.T) {
	for setting, coloured := range map[string]bool{"NO_COLOR=": true, "NO_COLOR=1": false} {
		t.Run(setting, func(t *testing.T) {
			tm := started(t, setting)
			var seen bool
			see(t, tm, func(b []byte) bool {
				seen = colours.Match(b)
				return bytes.Contains(b, []byte("54.0"))
			})
			if seen != coloured {
				t.Errorf("there are colours: %v, want %v", seen, coloured)
			}
			tm.Type("q")
			tm.WaitFinished(t, teatest.WithFinalTimeout(10*time.Second))
		})
	}
}
