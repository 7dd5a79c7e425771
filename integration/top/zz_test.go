package top

import (
	"fmt"
	"testing"
	"time"
	"golang.org/x/sys/unix"
)

func TestZZ(t *testing.T) {
	s := newScene(t)
	term := open(t, s.Node.Host, "top")
	time.Sleep(3 * time.Second)
	n := len(term.written())
	fmt.Printf("%q\n\n", term.written())
	raw, _ := term.keys.SyscallConn()
	raw.Control(func(fd uintptr) {
		unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 121})
	})
	time.Sleep(500 * time.Millisecond)
	fmt.Printf("%q\n\n", term.written()[n:])
	n = len(term.written())
	term.keys.WriteString("\r")
	time.Sleep(500 * time.Millisecond)
	fmt.Printf("%q\n\n", term.written()[n:])
	n = len(term.written())
	term.keys.WriteString("q")
	time.Sleep(500 * time.Millisecond)
	fmt.Printf("%q\n\n", term.written()[n:])
}
