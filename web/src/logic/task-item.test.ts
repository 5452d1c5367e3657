import { expect, test } from "vitest";
import { itemName } from "./task-item";

test("an item is named by what it is about", () => {
  expect(itemName({ topic_name: "orders" })).toBe("orders");
  expect(itemName({ topic_name: "orders", partition_id: 0 })).toBe("orders-0");
  expect(itemName({ partitions: 7 })).toBe("7 partitions");
});
