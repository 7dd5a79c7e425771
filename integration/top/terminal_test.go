package top

import (
	"fmt"
	"os"
	"strings"
	stdsync "sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/lab"
)

// terminal is a pseudo-terminal with the program on it.
type terminal struct {
	t    testing.TB
	keys *os.File
	cmd  *lab.Cmd
	mu   stdsync.Mutex // guards text
	text strings.Builder
	done chan struct{} // closed when nothing more comes
}

// open runs the program on a terminal of a usual size.
func open(t *testing.T, host *lab.Host, args ...string) *terminal {
	t.Helper()
	path, err := built.Path()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := pair(t)
	term := &terminal{t: t, keys: ours, done: make(chan struct{})}
	term.cmd = host.Command(t.Context(), path, args...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = theirs, theirs, theirs
	// Of a terminal of this name nobody asks for its colours, which nobody would tell.
	term.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	go term.read()
	t.Cleanup(func() { ours.Close() })
	return term
}

// pair are both ends of a pseudo-terminal.
func pair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	err = raw.Control(func(fd uintptr) {
		number, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPTN) // else it is not there to be opened
		_ = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 120})
	})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

func (term *terminal) read() {
	defer close(term.done)
	buffer := make([]byte, 1<<12)
	for {
		n, err := term.keys.Read(buffer)
		term.mu.Lock()
		term.text.Write(buffer[:n])
		term.mu.Unlock()
		if err != nil {
			return // the program has left the terminal
		}
	}
}

// written is all that the program has written so far.
func (term *terminal) written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text.String()
}

// press presses keys and waits until a text is written thereafter.
func (term *terminal) press(keys, want string) {
	term.t.Helper()
	before := len(term.written())
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(patience)
	for !strings.Contains(term.written()[before:], want) {
		select {
		case <-ticker.C:
		case <-late:
			term.t.Fatalf("after %q there is no %q:\n%q", keys, want, term.written()[before:])
		}
	}
}

// over waits for the end of the program.
func (term *terminal) over() {
	term.t.Helper()
	if err := term.cmd.Wait(); err != nil {
		term.t.Errorf("the program ended with %v", err)
	}
	<-term.done
}
