// A table that scrolls within a narrow screen and shows long lists in parts.
import { type ReactNode, useState } from "react";

export interface Column<T> {
  readonly head: string;
  readonly cell: (row: T) => ReactNode;
  readonly numeric?: boolean;
}

interface Props<T> {
  readonly label: string;
  readonly rows: readonly T[];
  readonly rowKey: (row: T) => string;
  readonly columns: readonly Column<T>[];
  /** A matrix has narrow columns; a stack puts the cells of a row below one another on a narrow screen. */
  readonly shape?: "matrix" | "stack";
}

const PART = 100;

/** The first column names the row. */
export function Table<T>({ label, rows, rowKey, columns, shape }: Props<T>) {
  const [shown, setShown] = useState(PART);
  return (
    <>
      <div className="scroll">
        <table aria-label={label} className={shape}>
          <thead>
            <tr>
              {columns.map(({ head, numeric }) => (
                <th key={head} scope="col" className={numeric ? "number" : ""}>
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, shown).map((row) => (
              <Row key={rowKey(row)} row={row} columns={columns} />
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > shown && (
        <button type="button" onClick={() => setShown(shown + PART)}>
          Show {Math.min(PART, rows.length - shown)} more of {rows.length}
        </button>
      )}
    </>
  );
}

function Row<T>({ row, columns }: { row: T; columns: readonly Column<T>[] }) {
  return (
    <tr>
      {columns.map(({ head, cell, numeric }, index) =>
        index === 0 ? (
          <th key={head} scope="row">
            {cell(row)}
          </th>
        ) : (
          <td key={head} className={numeric ? "number" : ""}>
            {cell(row)}
          </td>
        ),
      )}
    </tr>
  );
}
