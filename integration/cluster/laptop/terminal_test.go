package laptop_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	stdsync "sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/cluster/laptop"
	"kube-vmap/integration/lab"
)

// The size of a terminal.
const (
	rows    = 30
	columns = 120
)

// patience is longer than anything takes that must come.
const patience = 20 * time.Second

// terminal is a pseudo-terminal on which the program runs.
type terminal struct {
	t    testing.TB
	keys *os.File
	cmd  *lab.Cmd
	mu   stdsync.Mutex // guards text
	text strings.Builder
	done chan struct{} // closed at the end of the output
}

// open runs kubectl on a terminal.
func open(t *testing.T, c *laptop.Cluster, args ...string) *terminal {
	t.Helper()
	ours, theirs := pair(t)
	term := &terminal{t: t, keys: ours, done: make(chan struct{})}
	term.cmd = c.Command(t.Context(), t, c.AdminKubeconfig(), args...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = theirs, theirs, theirs
	term.cmd.Env = append(term.cmd.Env, "TERM=xterm-256color")
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	go term.read()
	t.Cleanup(func() { ours.Close() })
	return term
}

// pair opens both ends of a pseudo-terminal.
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
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
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

// written returns the output so far.
func (term *terminal) written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text.String()
}

// resize changes the width of the terminal, after which the program draws everything:
// otherwise it draws differences only.
func (term *terminal) resize(width uint16) {
	term.t.Helper()
	raw, err := term.keys.SyscallConn()
	if err != nil {
		term.t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: width})
	})
	if err != nil {
		term.t.Fatal(err)
	}
}

var (
	erased    = regexp.MustCompile(`\x1b\[(\d+)X`)
	sequences = regexp.MustCompile(`\x1b\[[0-9;:?<>]*[A-Za-z]`)
)

// screen returns the last complete drawing after an offset of the output.
func (term *terminal) screen(after int) string {
	written := term.written()[after:]
	start := strings.LastIndex(written, "\x1b[2J")
	if start < 0 {
		return ""
	}
	text := erased.ReplaceAllStringFunc(written[start:], func(s string) string {
		n, _ := strconv.Atoi(erased.FindStringSubmatch(s)[1])
		return strings.Repeat(" ", n)
	})
	return sequences.ReplaceAllString(text, "")
}

// press presses keys and waits until a text is on the screen.
func (term *terminal) press(keys, want string) {
	term.t.Helper()
	term.types(keys)
	term.until(want, func(screen string) bool { return strings.Contains(screen, want) })
}

// types presses keys.
func (term *terminal) types(keys string) {
	term.t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// until waits for a text in a later drawing.
func (term *terminal) until(what string, seen func(screen string) bool) {
	term.t.Helper()
	start := len(term.written())
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(patience)
	for n := uint16(0); !seen(term.screen(start)); n++ {
		term.resize(columns + n%2)
		select {
		case <-ticker.C:
		case <-late:
			term.t.Fatalf("there is no %s on the screen:\n%s", what, term.screen(start))
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
