package docs

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPicturesEqualTheirTexts compares each picture of docs/pictures with the text that it is drawn
// from. With -update it draws them. The first line of a text is the title. Characters for lines and
// arrowheads are drawn as such, a closed frame is filled, paler if it contains ░.
func TestPicturesEqualTheirTexts(t *testing.T) {
	texts, err := filepath.Glob("../../docs/pictures/*.txt")
	if err != nil || len(texts) == 0 {
		t.Fatal("no texts", err)
	}
	for _, name := range texts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		title, drawing, _ := strings.Cut(string(text), "\n\n")
		picture := draw(title, drawing)
		name = strings.TrimSuffix(name, ".txt") + ".svg"
		if *update {
			if err := os.WriteFile(name, []byte(picture), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if drawn, err := os.ReadFile(name); err != nil || string(drawn) != picture {
			t.Errorf("%s is not what its text says; run make docs (%v)", name, err)
		}
	}
}

// cellWidth and cellHeight are the pixels of a character.
const cellWidth, cellHeight = 8, 18

// directions has the halves of a cell that a character draws: left, right, up, down.
var directions = map[rune]string{
	'─': "lr", '│': "ud", '┌': "rd", '┐': "ld", '└': "ru", '┘': "lu", '├': "rud", '┤': "lud", '┬': "lrd", '┴': "lru", '┼': "lrud",
	'▶': "l", '◀': "r", '▼': "u", '▲': "d",
}

// heads are the points of arrowheads, the tip first, relative to the cell's center.
var heads = map[rune][3][2]int{
	'▶': {{8, 0}, {-1, -4}, {-1, 4}}, '◀': {{-8, 0}, {1, -4}, {1, 4}}, '▼': {{0, 17}, {-4, 8}, {4, 8}}, '▲': {{0, -17}, {-4, -8}, {4, -8}},
}

// A grid is a drawing by rows and columns.
type grid [][]rune

func (g grid) at(row, column int) rune {
	if row < 0 || row >= len(g) || column < 0 || column >= len(g[row]) {
		return ' '
	}
	return g[row][column]
}

// has reports whether a cell draws all of these halves.
func (g grid) has(row, column int, halves string) bool {
	drawn := directions[g.at(row, column)]
	for _, half := range halves {
		if !strings.ContainsRune(drawn, half) {
			return false
		}
	}
	return true
}

// draw returns an SVG for light and dark backgrounds.
func draw(title, drawing string) string {
	var g grid
	columns := 0
	for line := range strings.SplitSeq(strings.TrimRight(drawing, "\n"), "\n") {
		g = append(g, []rune(line))
		columns = max(columns, len(g[len(g)-1]))
	}
	frames, inside := g.frames()
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="%d %d %d %d" width="%[3]d" height="%[4]d" role="img">
<title>%[5]s</title>
<style>
svg { --page: #fff; --line: #57606a; --frame: #0969da1f; --pale: #8c959f1f; --name: #1f2328; --note: #57606a }
@media (prefers-color-scheme: dark) {
  svg { --page: #0d1117; --line: #8b949e; --frame: #388bfd33; --pale: #6e76811f; --name: #e6edf3; --note: #9198a1 }
}
.page { fill: var(--page) } .frame { fill: var(--frame) } .pale { fill: var(--pale) }
path { fill: none; stroke: var(--line); stroke-width: 1.2 } .head { fill: var(--line) }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }
.name { fill: var(--name) } .note { fill: var(--note) }
</style>
<rect class="page" x="%[1]d" y="%[2]d" width="%[3]d" height="%[4]d"/>
%[6]s<path d="%[7]s"/>
%[8]s</svg>
`, -2*cellWidth, -cellHeight, (columns+4)*cellWidth, (len(g)+2)*cellHeight, html.EscapeString(title), frames, g.lines(), g.texts(inside))
}

// center returns the pixel in the middle of a cell.
func center(row, column int) (x, y int) {
	return column*cellWidth + cellWidth/2, row*cellHeight + cellHeight/2
}

// frames returns the filled rectangles, outer ones first, and the cells inside them.
func (g grid) frames() (svg string, inside map[[2]int]bool) {
	inside = map[[2]int]bool{}
	for row := range g {
		for column := range g[row] {
			bottom, right, closed := g.frame(row, column)
			if !closed {
				continue
			}
			class := "frame"
			for r := row; r <= bottom; r++ {
				for c := column; c <= right; c++ {
					inside[[2]int{r, c}] = true
					if g.at(r, c) == '░' {
						class = "pale"
					}
				}
			}
			x, y := center(row, column)
			svg += fmt.Sprintf(`<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`+"\n", class, x, y,
				(right-column)*cellWidth, (bottom-row)*cellHeight)
		}
	}
	return svg, inside
}

// frame finds the smallest frame with its upper left corner at a cell.
func (g grid) frame(row, column int) (bottom, right int, closed bool) {
	if !g.has(row, column, "rd") {
		return 0, 0, false
	}
	right, bottom = column+1, row+1
	for g.has(row, right, "lr") && !g.has(row, right, "d") {
		right++
	}
	for g.has(bottom, column, "ud") && !g.has(bottom, column, "r") {
		bottom++
	}
	closed = g.has(row, right, "ld") && g.has(bottom, column, "ru") && g.has(bottom, right, "lu")
	for c := column + 1; c < right; c++ {
		closed = closed && g.has(bottom, c, "lr")
	}
	for r := row + 1; r < bottom; r++ {
		closed = closed && g.has(r, right, "ud")
	}
	return bottom, right, closed
}

func (g grid) lines() (path string) {
	for row := range g {
		for column := range g[row] {
			x, y := center(row, column)
			if g.has(row, column, "r") && !(g.has(row, column, "l") && g.has(row, column-1, "r")) {
				before, length := length(func(i int) rune { return g.at(row, column+i) }, "l", "r")
				path += fmt.Sprintf("M%d %dh%d", x-before*cellWidth/2, y, (before+length)*cellWidth/2)
			}
			if g.has(row, column, "d") && !(g.has(row, column, "u") && g.has(row-1, column, "d")) {
				before, length := length(func(i int) rune { return g.at(row+i, column) }, "u", "d")
				path += fmt.Sprintf("M%d %dv%d", x, y-before*cellHeight/2, (before+length)*cellHeight/2)
			}
		}
	}
	return path
}

// length returns how many half cells a line has before the center of its first cell, and after it.
func length(cell func(int) rune, back, forth string) (before, after int) {
	draws := func(i int, half string) bool { return strings.Contains(directions[cell(i)], half) }
	if draws(0, back) {
		before = 1
	}
	for i := 0; draws(i, forth); i++ {
		after++
		if draws(i+1, back) {
			after++
		}
	}
	return before, after
}

var words = regexp.MustCompile(`\S+( \S+)*`)

// texts returns arrowheads, and the texts between lines and wide spaces.
func (g grid) texts(inside map[[2]int]bool) (svg string) {
	for row := range g {
		text := make([]byte, len(g[row]))
		for column, c := range g[row] {
			text[column] = ' '
			if directions[c] == "" && c != '░' {
				text[column] = byte(c)
			}
			if points, ok := heads[c]; ok {
				x, y := center(row, column)
				svg += fmt.Sprintf(`<path class="head" d="M%d %dL%d %dL%d %dL%d %dL%[3]d %[4]d"/>`+"\n",
					x, y, x+points[0][0], y+points[0][1], x+points[1][0], y+points[1][1], x+points[2][0], y+points[2][1])
			}
		}
		for _, at := range words.FindAllIndex(text, -1) {
			class := "note"
			if inside[[2]int{row, at[0]}] {
				class = "name"
			}
			_, y := center(row, 0)
			svg += fmt.Sprintf(`<text class="%s" x="%d" y="%d" textLength="%d">%s</text>`+"\n", class, at[0]*cellWidth, y+4,
				(at[1]-at[0])*cellWidth, html.EscapeString(string(text[at[0]:at[1]])))
		}
	}
	return svg
}
