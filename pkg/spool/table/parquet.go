package table

import (
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// groupBytes is how much of a table is in memory at a time: the columns of one
// row group, before they are compressed.
const groupBytes = 16 << 20

// Writer takes rows.
type Writer interface {
	Write(r *Row) error
	Close() error // ends the table; it does not close what was written to
}

type parquetWriter struct {
	w     *parquet.GenericWriter[Row]
	bytes int
}

// NewParquet writes a Parquet file of one table.
func NewParquet(w io.Writer, createdBy string) Writer {
	return &parquetWriter{w: parquet.NewGenericWriter[Row](w,
		parquet.Compression(&zstd.Codec{Level: zstd.DefaultLevel}), parquet.CreatedBy(createdBy, "", ""))}
}

func (p *parquetWriter) Write(r *Row) error {
	if _, err := p.w.Write([]Row{*r}); err != nil {
		return err
	}
	if p.bytes += r.size(); p.bytes < groupBytes {
		return nil
	}
	p.bytes = 0
	return p.w.Flush()
}

func (p *parquetWriter) Close() error { return p.w.Close() }
